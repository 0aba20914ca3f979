"""Measure what the book quotes: times, costs, small training runs, and agreement with other libraries.

    python -m linattn_benchmarks NAME... --out DIR [--reduced | --dry-run] [--only COLUMN=CELL...]

A benchmark is a table and the tasks that measure its rows (``benchmark``); ``registry`` lists them. ``run``
runs the tasks that are missing and saves rows as they come. Device time is measured by ``clock``, wall-clock
time by ``linattn_book.measure``; results and gradients are compared by ``compare``; ``tasks`` trains on small
tasks.

=================  ===================  =====================================================================
module             table                what is measured
=================  ===================  =====================================================================
ops                attention_cost       time and memory of every form of attention, against the length
ops                bracket_cost         (Q K^T) V against Q (K^T V)
recurrences        recurrence_cost      time and memory of loops, convolutions, scans and chunks
models             decode_cost          a token at a time: time, and bytes of state
models             speed                training and generation of the study's architectures
steps              step_cost            a training step of the study, with our softmax and with torch's
compiled_training  compiled_training    such a step against the length, compiled
training           language_models      small language models of equal size
training           late_mask            what a mask after the softmax does
gates              gate_reset           what a mark can reset, by the kind of gate
gates              gate_recall          recall at equal size of the state, by the kind of gate
selection          selection            copying, induction and parity, at lengths beyond training
fits               fit_coverage         whether fits of scaling laws find what is there
kernels            kernels              our kernels beside those of FLA and torch
kernels            kernel_lengths       our kernels against the length and the chunk size
kernels            kernel_host          what the host takes for a call, beside FLA's
kernels            scans                Mamba's scan beside mamba-ssm's
agreement_ops      fla_agreement        FLA's kernels against our ops
agreement_layers   fla_layers           FLA's layers against our mixers
=================  ===================  =====================================================================
"""
