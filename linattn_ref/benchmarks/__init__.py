"""What chapters quote: ``python -m linattn_ref.benchmarks NAME... [--reduced] --out DIR``.

Each study returns rows; the command writes them, with their provenance, where ``linattn_ref.results`` reads.
``--reduced`` runs the same code at sizes for a laptop.
"""

from linattn_ref.benchmarks.attention import ATTENTION_COST, BRACKET_COST
from linattn_ref.benchmarks.coverage import COVERAGE
from linattn_ref.benchmarks.decoding import DECODE_COST
from linattn_ref.benchmarks.language import LANGUAGE
from linattn_ref.benchmarks.late_mask import LATE_MASK
from linattn_ref.benchmarks.speed import SPEED
from linattn_ref.benchmarks.study import Study

STUDIES: dict[str, Study] = {
    "attention_cost": ATTENTION_COST,
    "bracket_cost": BRACKET_COST,
    "decode_cost": DECODE_COST,
    "language_models": LANGUAGE,
    "late_mask": LATE_MASK,
    "fit_coverage": COVERAGE,
    "speed": SPEED,
}
