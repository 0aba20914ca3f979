"""Planted answers to ``ch02_linear``: wrong ones, each with its hint, and right ones written in another way."""

from linattn_exercises.ch02_linear.mistakes import q1, q2, q3, q4, q5
