"""Grade a class from its notebooks: ``linattn grade``.

``command`` is what a teacher types. ``submissions`` finds and opens the notebooks, ``sandbox`` has one
read, and its answers run, in another process, ``draws`` says on which inputs, ``grade`` judges them and
keeps the marks, ``tables`` writes what a teacher and a student read. The other process is the worker:
``isolation`` says how it is started, ``sandbox_worker`` is its program, which forks for each job,
``reading`` reads a notebook there, and ``processes`` limits what it forks and cleans up after it. Expected
values and the comparison never leave the grader's process; the worker gets inputs and sends plain data.

Example::

    from linattn_exercises.grading import Grader, Limits, find_submissions, tables

    files, _ = find_submissions([Path("class")])
    grader = Grader(Path("out"), seed="a secret", limits=Limits(cpu=5))
    tables.write(grader.out, grader.grade(files), grader.sign)
"""

from linattn_exercises.grading.grade import GradedSubmission, Grader, Mark
from linattn_exercises.grading.isolation import ISOLATIONS
from linattn_exercises.grading.sandbox import IsolationUnavailable, Limits
from linattn_exercises.grading.submissions import find_submissions

__all__ = [
    "ISOLATIONS",
    "GradedSubmission",
    "Grader",
    "IsolationUnavailable",
    "Limits",
    "Mark",
    "find_submissions",
]
