"""Times, costs and agreement: of what chapters quote, of the kernels, of ours against others' code."""
