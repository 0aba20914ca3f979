"""The kernels timed beside FLA's and torch's: ``python -m linattn_benchmarks.kernels --out DIR``.

For every op, mode and shape there is a row: time of ours, of the fastest function of flash-linear-attention
(FLA) that computes the same, of torch's SDPA, and the least time in which the memory could move the bytes.
What gives wrong numbers on a smaller input is not timed, and the row says so. Rows are saved as they come;
the same command goes on where it was interrupted.

``--warm`` compiles everything beforehand, several ops at a time. ``--dry-run`` goes through the same code on
a CPU with tiny inputs, to test it: its times mean nothing.
"""
