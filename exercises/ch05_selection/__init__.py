"""Exercises to chapter 5: selection, Mamba and the delta rule."""
