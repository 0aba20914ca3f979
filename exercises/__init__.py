"""Graded exercises of the Linear Attention Book: one package a set, and what checks and marks them.

In a notebook: ``from linattn_exercises.ch01_softmax import check``, then ``check.q1(...)``.
For a class: ``linattn grade SUBMISSIONS --out DIR`` (``linattn_exercises.grading``).
"""

SETS = ("ch01_softmax", "ch02_linear")
