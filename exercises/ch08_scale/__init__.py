"""Exercises to chapter 8: do linear models scale?."""
