"""Exercises to chapter 3: decay and gates."""
