"""List the benchmarks by name.

No benchmark imports this module, so that a new one does not count as new code of the others.
"""

from importlib import import_module

from linattn_benchmarks.benchmark import Benchmark

BENCHMARKS = {  # imported when they are asked for: some need Triton or the study
    "attention_cost": "linattn_benchmarks.ops:ATTENTION_COST",
    "bracket_cost": "linattn_benchmarks.ops:BRACKET_COST",
    "recurrence_cost": "linattn_benchmarks.recurrences:RECURRENCE_COST",
    "decode_cost": "linattn_benchmarks.models:DECODE_COST",
    "speed": "linattn_benchmarks.models:SPEED",
    "whole_models": "linattn_benchmarks.whole_models:WHOLE_MODELS",
    "step_cost": "linattn_benchmarks.steps:STEP_COST",
    "compiled_training": "linattn_benchmarks.compiled_training:COMPILED_TRAINING",
    "language_models": "linattn_benchmarks.training:LANGUAGE_MODELS",
    "late_mask": "linattn_benchmarks.training:LATE_MASK",
    "gate_reset": "linattn_benchmarks.gates:GATE_RESET",
    "gate_recall": "linattn_benchmarks.gates:GATE_RECALL",
    "selection": "linattn_benchmarks.selection:SELECTION",
    "fit_coverage": "linattn_benchmarks.fits:FIT_COVERAGE",
    "kernels": "linattn_benchmarks.kernels.rows:KERNELS",
    "kernel_lengths": "linattn_benchmarks.kernels.lengths:KERNEL_LENGTHS",
    "kernel_host": "linattn_benchmarks.kernels.host:KERNEL_HOST",
    "scans": "linattn_benchmarks.kernels.scans:SCANS",
    "fla_agreement": "linattn_benchmarks.agreement_ops:FLA_AGREEMENT",
    "fla_layers": "linattn_benchmarks.agreement_layers:FLA_LAYERS_BENCHMARK",
}


def load_benchmark(name: str) -> Benchmark:
    """Import the benchmark of that name."""
    module, attribute = BENCHMARKS[name].split(":")
    return getattr(import_module(module), attribute)
