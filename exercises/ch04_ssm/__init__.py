"""Exercises to chapter 4: state space models."""
