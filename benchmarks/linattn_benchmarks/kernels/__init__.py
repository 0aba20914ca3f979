"""Time our kernels beside those of FLA and torch: the benchmark ``kernels``.

For every op, mode and shape there is a row: the time of ours, of the fastest function of
flash-linear-attention (FLA) that computes the same, of torch's SDPA, and the least time in which the memory
could move the bytes. What gives wrong numbers on a smaller input is not timed, and the row says so.

``--warm`` compiles everything beforehand, several ops at a time. ``--dry-run`` goes through the same code on
a CPU, in Triton's interpreter and without FLA.
"""
