"""``linattn grade``: marks for a class, from its notebooks.

``entries`` finds the notebooks, ``submissions`` reads one, ``server`` runs its answers in another process,
``marks`` compares and keeps, ``tables`` writes what a teacher and a student read. Expected values and the
comparison never leave this process; the process that runs answers gets inputs and sends plain data.
"""

from linattn_exercises.grading.isolation import ISOLATIONS
from linattn_exercises.grading.marks import Grader, Mark
from linattn_exercises.grading.server import Limits, NoIsolation

__all__ = ["ISOLATIONS", "Grader", "Limits", "Mark", "NoIsolation"]
