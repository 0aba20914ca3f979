"""What chapters quote: ``python -m linattn_benchmarks.chapters NAME... [--reduced] --out DIR``.

Each study returns rows; the command writes them, with their provenance, where ``linattn_book.results`` reads.
``--reduced`` runs the same code at sizes for a laptop.
"""

from linattn_benchmarks.chapters.attention import ATTENTION_COST, BRACKET_COST
from linattn_benchmarks.chapters.coverage import COVERAGE
from linattn_benchmarks.chapters.decoding import DECODE_COST
from linattn_benchmarks.chapters.language import LANGUAGE
from linattn_benchmarks.chapters.late_mask import LATE_MASK
from linattn_benchmarks.chapters.speed import SPEED
from linattn_benchmarks.chapters.study import Study

STUDIES: dict[str, Study] = {
    "attention_cost": ATTENTION_COST,
    "bracket_cost": BRACKET_COST,
    "decode_cost": DECODE_COST,
    "language_models": LANGUAGE,
    "late_mask": LATE_MASK,
    "fit_coverage": COVERAGE,
    "speed": SPEED,
}
