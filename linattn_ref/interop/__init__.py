"""Translate arguments, states and weights of other libraries: FLA, Mamba, transformers."""

from linattn_ref.interop.fla_functions import (
    FLA_FUNCTIONS,
    FLAFunction,
    from_fla,
    from_fla_normalised_state,
    from_fla_result,
    import_fla_function,
    to_fla,
    to_fla_normalised_state,
)
from linattn_ref.interop.fla_layers import FLA_LAYERS, WITHOUT_FLA_LAYER, FLALayer, to_fla_layer
from linattn_ref.interop.hugging_face import from_transformers
from linattn_ref.interop.layouts import swap_time_and_heads, transpose_state
from linattn_ref.interop.mamba import (
    from_selective_scan,
    from_ssd,
    mamba_selective_scan,
    to_selective_scan,
    to_ssd,
)

__all__ = [
    "FLA_FUNCTIONS",
    "FLA_LAYERS",
    "WITHOUT_FLA_LAYER",
    "FLAFunction",
    "FLALayer",
    "from_fla",
    "from_fla_normalised_state",
    "from_fla_result",
    "from_selective_scan",
    "from_ssd",
    "from_transformers",
    "import_fla_function",
    "mamba_selective_scan",
    "swap_time_and_heads",
    "to_fla",
    "to_fla_layer",
    "to_fla_normalised_state",
    "to_selective_scan",
    "to_ssd",
    "transpose_state",
]
