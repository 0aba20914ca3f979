"""Provide the graded exercises of the Linear Attention Book: a package for each set, and what grades them.

In a notebook: ``from linattn_exercises.ch01_softmax import check``, then ``check.q1(...)``.
For a class: ``linattn grade SUBMISSIONS --out DIR`` (``linattn_exercises.grading``).
The names of all sets: ``linattn_exercises.sets.SETS``.

Read ``questions`` first: a question, and the verdict on an answer. It imports ``calls`` (one call, and what
is wrong with its outcome), ``comparison`` (a result and the expected one), ``known_mistakes`` (wrong
answers and their hints), ``recognisers`` (kinds of mistakes) and ``watch`` (what an answer computes, where
own code is asked for). ``serialization`` turns arguments and results into plain data.
"""
