"""Exercises to chapter 2: kernelised linear attention."""
