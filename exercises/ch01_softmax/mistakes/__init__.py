"""Planted answers to ``ch01_softmax``: wrong ones, each with its hint, and right ones written in another way."""

from linattn_exercises.ch01_softmax.mistakes import q1, q2, q3, q4, q5
