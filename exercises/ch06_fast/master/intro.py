# %% [markdown] intro
# # Exercises to chapter 6: making it fast
#
# Each question has a cell for your answer and a cell that checks it. The check draws inputs from a fixed
# seed, compares your result with a reference, and shows the first entry that is wrong. If it knows the
# mistake, it gives a hint. You can check as often as you like.
#
# Two questions are about numbers. In the others you write kernels in [Triton](https://triton-lang.org) (3.6 or newer), on any Linux machine,
# without a GPU. You can run them in Triton's interpreter. The check lets Triton's compiler read them, which needs no GPU, and runs its code
# on contiguous tensors of float32. It sees every entry that a program reads or writes, and refuses
#
# - an entry outside of the tensors, also where the interpreter would not mind;
# - two programs that touch the same entry, if one of them writes it: programs run in an order that is drawn;
# - more reading than the question allows, in all or in one program, loads of single tokens where there are chunks, or of more
#   than 4,096 entries at once;
# - what the compiler refuses, whose code is run here as on a GPU; and what it would only believe, such as `tl.multiple_of`.
#
# What GPUs promise nothing of is left to chance: in which order a reduction pairs entries, whether a product is rounded before it is added, what
# `can_reorder=True` does. Of a kernel the text counts, with the functions under `@triton.jit` that it calls and constants of the module that are `tl.constexpr`.
#
# Where `mask=` leaves something out and no `other=` is given, a GPU may leave anything; here it is NaN, 0, or any number up to 30,000 of either sign. In your kernels sizes that are `tl.constexpr` are powers
# of 2, from 16 to 64. Let products be exact: `tl.dot(a, b, input_precision="ieee")`. If a kernel writes several tensors, a message counts them from 0:
# `[1][0, 2]` is entry `[0, 2]` of the second.
#
# A grader may later run the same questions on other inputs, with 5 seconds of processor time, or eight times what ours
# takes there if that is more, and 1 GB of memory for each. It reads the names that the answer cells define, so keep those; you may add cells as you
# wish, also for functions of your own under `@triton.jit`.

# %% setup
import math
import os

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

import torch
import triton
import triton.language as tl

# %% checks
from linattn_exercises.calls import Call
from linattn_exercises.comparison import Close, Exactly, Within
from linattn_exercises.kernel_memory import plan
from linattn_exercises.questions import QuestionInfo, define_question


def _normal(rng, *shape, scale=1.0):
    """Return normal numbers in float32."""
    return torch.from_numpy((scale * rng.normal(size=shape)).astype("float32"))


def _nothing(*shape):
    """Return a tensor that a kernel is to fill: NaN."""
    return torch.full(shape, math.nan)


def _order(rng):
    """Return the seed of an order of programs."""
    return int(rng.integers(1, 2**31))
