# %% [markdown] intro
# # Exercises to chapter 4: state space models
#
# Each question has a cell for your answer and a cell that checks it. The check draws inputs from a fixed
# seed, compares your result with a reference, and shows the first entry that is wrong. If it knows the
# mistake, it gives a hint. You can check as often as you like.
#
# The questions follow the sections of the chapter and use its symbols. Each is about one channel, whose
# $N$ numbers of state are complex, and each of them stands for itself and its conjugate. Inputs are
# float64 tensors unless a question says otherwise. Complex numbers come as pairs of real ones, real part
# first, as S4's code keeps its parameters: `A` is then $[N, 2]$, and `torch.view_as_complex(A)` has the
# $N$ numbers. Results are real; give new tensors the dtype of the inputs, and do not change the inputs.
#
# A grader may later run the same questions on other inputs, with 5 seconds of processor time and 1 GB of
# memory for each. It reads the names that the answer cells define, so keep those; you may add cells as you
# wish.

# %% setup
import math

import torch

# %% checks
import cmath

from linattn_exercises.calls import Call
from linattn_exercises.comparison import Close, Exactly, Within
from linattn_exercises.questions import QuestionInfo, define_question


def as_pairs(z):
    """Return complex numbers [N] as pairs of real ones [N, 2]."""
    return torch.view_as_real(torch.as_tensor(z, dtype=torch.complex128))
