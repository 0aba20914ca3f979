# %% [markdown] intro
# # Exercises to chapter 1: softmax attention
#
# Each question has a cell for your answer and a cell that checks it. The check draws inputs from a fixed
# seed, compares your result with a reference, and shows the first entry that is wrong. If it knows the
# mistake, it gives a hint. You can check as often as you like.
#
# The questions follow the sections of the chapter and use its symbols. Vectors are rows, so $k^\top v$ is a
# $K\times V$ matrix. Inputs are float64 tensors unless a question says otherwise; give new tensors the
# dtype of the inputs, float64 where these are numbers or lists, and do not change the inputs.
#
# A grader may later run the same questions on other inputs, with 5 seconds of processor time and 1 GB of
# memory for each. It reads the names that the answer cells define, so keep those; you may add cells as you
# wish.

# %% setup
import math

import torch

# %% checks
from linattn_exercises.calls import Call
from linattn_exercises.comparison import Close, Exactly, Within
from linattn_exercises.questions import QuestionInfo, define_question
