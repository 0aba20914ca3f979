"""Reference implementations of softmax and linear attention, in three equal forms each.

A state is written and read: ``S_t = G_t * S_{t-1} + write_t``, ``o_t = read(q_t, S_t)``.
Everything in this package is a choice of gate, write and read.
"""

__version__ = "0.1.0"
