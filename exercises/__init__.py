"""Graded exercises of the Linear Attention Book: one package a set, and what checks and grades them.

In a notebook: ``from linattn_exercises.ch01_softmax import check``, then ``check.q1(...)``.
For a class: ``linattn grade SUBMISSIONS --out DIR`` (``linattn_exercises.grading``).
The names of all sets: ``linattn_exercises.sets.SETS``.
"""
