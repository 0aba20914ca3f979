"""Ours against flash-linear-attention (FLA), on a GPU: kernels against our ops, layers against our mixers.

``python -m linattn_benchmarks.agreement [FUNCTION...] --out DIR`` compares kernels and needs fla-core; with
``--layers`` the names are mixers, and flash-linear-attention and transformers are needed too. Both sides get
the same rounded numbers, ours computes in float64. Rows are kept as the results ``fla_agreement`` and
``fla_layers``.
"""
