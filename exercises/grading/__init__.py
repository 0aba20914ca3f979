"""Grade a class from its notebooks: ``linattn grade``.

``submissions`` finds the notebooks and reads one, ``sandbox`` runs its answers in another process
(``sandbox_worker``), ``grade`` compares and keeps, ``tables`` writes what a teacher and a student read.
Expected values and the comparison never leave this process; the worker gets inputs and sends plain data.

Example::

    files, _ = find_submissions([Path("class")])
    grader = Grader(Path("out"), seed="a secret", limits=Limits(cpu=5))
    tables.write(grader.out, grader.grade(files))
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
