"""Token mixers: a model is how x becomes what one op takes."""

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer, Row
from linattn_ref.mixers.cosformer import CosformerMixer
from linattn_ref.mixers.cosformer2 import Cosformer2Mixer
from linattn_ref.mixers.delta_net import DeltaNetMixer, GatedDeltaNetMixer
from linattn_ref.mixers.gla import GLAMixer
from linattn_ref.mixers.hgrn2 import HGRN2Mixer
from linattn_ref.mixers.linear import LinearMixer
from linattn_ref.mixers.mamba import MambaMixer
from linattn_ref.mixers.mamba2 import Mamba2Mixer
from linattn_ref.mixers.mlstm import MLSTMMixer
from linattn_ref.mixers.retnet import GatedRetNetMixer, RetNetMixer
from linattn_ref.mixers.rwkv import RWKV4Mixer, RWKV6Mixer
from linattn_ref.mixers.s4d import H3Mixer, S4DMixer
from linattn_ref.mixers.softmax import SoftmaxMixer
from linattn_ref.mixers.tnl import TNLMixer

MIXERS: dict[str, type[Mixer]] = {
    "softmax": SoftmaxMixer,
    "linear": LinearMixer,
    "cosformer": CosformerMixer,
    "cosformer2": Cosformer2Mixer,
    "retnet": RetNetMixer,
    "tnl": TNLMixer,
    "gla": GLAMixer,
    "hgrn2": HGRN2Mixer,
    "gated_retnet": GatedRetNetMixer,
    "mlstm": MLSTMMixer,
    "rwkv4": RWKV4Mixer,
    "rwkv6": RWKV6Mixer,
    "s4d": S4DMixer,
    "h3": H3Mixer,
    "mamba": MambaMixer,
    "mamba2": Mamba2Mixer,
    "delta_net": DeltaNetMixer,
    "gated_delta_net": GatedDeltaNetMixer,
}


def mixer_of(config: ModelConfig) -> type[Mixer]:
    """The class that ``config.mixer`` names."""
    if config.mixer not in MIXERS:
        raise ValueError(f"mixer: got {config.mixer!r}, expected one of {sorted(MIXERS)}")
    return MIXERS[config.mixer]


__all__ = [
    "MIXERS",
    "Cosformer2Mixer",
    "CosformerMixer",
    "DeltaNetMixer",
    "GLAMixer",
    "GatedDeltaNetMixer",
    "GatedRetNetMixer",
    "H3Mixer",
    "HGRN2Mixer",
    "LinearMixer",
    "MLSTMMixer",
    "Mamba2Mixer",
    "MambaMixer",
    "Mixer",
    "RWKV4Mixer",
    "RWKV6Mixer",
    "RetNetMixer",
    "Row",
    "S4DMixer",
    "SoftmaxMixer",
    "TNLMixer",
    "mixer_of",
]
