"""Translate arguments, results and states of our ops into those of other libraries: FLA, Mamba, torch."""

from linattn_benchmarks.translation.fla import (
    FLA_FUNCTIONS,
    FLAFunction,
    from_fla,
    from_fla_normalised_state,
    from_fla_result,
    import_fla_function,
    to_fla,
    to_fla_normalised_state,
)
from linattn_benchmarks.translation.layouts import swap_time_and_heads, transpose_state
from linattn_benchmarks.translation.mamba import (
    from_selective_scan,
    from_ssd,
    mamba_selective_scan,
    to_selective_scan,
    to_ssd,
)

__all__ = [
    "FLA_FUNCTIONS",
    "FLAFunction",
    "from_fla",
    "from_fla_normalised_state",
    "from_fla_result",
    "from_selective_scan",
    "from_ssd",
    "import_fla_function",
    "mamba_selective_scan",
    "swap_time_and_heads",
    "to_fla",
    "to_fla_normalised_state",
    "to_selective_scan",
    "to_ssd",
    "transpose_state",
]
