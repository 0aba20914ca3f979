"""Token mixers: a model is how x becomes (q, k, v, log_decay, beta), then one op."""

from linattn_ref.config import ModelConfig
from linattn_ref.mixers.base import Mixer
from linattn_ref.mixers.cosformer import CosformerMixer
from linattn_ref.mixers.linear import LinearMixer
from linattn_ref.mixers.softmax import SoftmaxMixer

MIXERS: dict[str, type[Mixer]] = {
    "softmax": SoftmaxMixer,
    "linear": LinearMixer,
    "cosformer": CosformerMixer,
}


def mixer_of(config: ModelConfig) -> type[Mixer]:
    """The class that ``config.mixer`` names."""
    if config.mixer not in MIXERS:
        raise ValueError(f"mixer: got {config.mixer!r}, expected one of {sorted(MIXERS)}")
    return MIXERS[config.mixer]


__all__ = ["MIXERS", "CosformerMixer", "LinearMixer", "Mixer", "SoftmaxMixer", "mixer_of"]
