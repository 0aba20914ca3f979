"""Exercises to chapter 9: recall, and what loss hides."""
