"""Exercises to chapter 6: making it fast."""
