"""Exercises to chapter 7: four architectures, one budget."""
