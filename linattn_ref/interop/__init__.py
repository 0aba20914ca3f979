"""Carry weights between our models and those of other libraries: FLA's layers, models of transformers."""

from linattn_ref.interop.fla_layers import FLA_LAYERS, WITHOUT_FLA_LAYER, FLALayer, to_fla_layer
from linattn_ref.interop.hugging_face import from_transformers

__all__ = ["FLA_LAYERS", "WITHOUT_FLA_LAYER", "FLALayer", "from_transformers", "to_fla_layer"]
