"""Exercises to chapter 1: softmax attention."""
