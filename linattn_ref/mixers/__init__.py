"""Define token mixers: layers that project x to what one op takes, call the op, and project its output back.

``MIXERS`` lists them by name. ``base`` has their common class ``Mixer``, ``equation`` the gate, write and
read that describe each of them, ``parts`` what several of them use, ``states`` what is done with states of
any of them; every other file has one mixer or two close relatives. A new mixer is a file with its options,
its class and its equation, and a line in ``MIXERS``.
"""

from linattn_ref.config import Options
from linattn_ref.mixers.base import Mixer
from linattn_ref.mixers.cosformer import CosformerMixer, CosformerOptions
from linattn_ref.mixers.cosformer2 import Cosformer2Mixer, Cosformer2Options
from linattn_ref.mixers.delta_net import (
    DeltaNetMixer,
    DeltaNetOptions,
    GatedDeltaNetMixer,
    GatedDeltaNetOptions,
)
from linattn_ref.mixers.equation import StateEquation
from linattn_ref.mixers.gla import GLAMixer
from linattn_ref.mixers.hgrn2 import HGRN2Mixer
from linattn_ref.mixers.kda import KDAMixer
from linattn_ref.mixers.linear import LinearMixer, LinearOptions
from linattn_ref.mixers.mamba import MambaMixer, MambaOptions
from linattn_ref.mixers.mamba2 import Mamba2Mixer, Mamba2Options
from linattn_ref.mixers.mlstm import MLSTMMixer, MLSTMOptions
from linattn_ref.mixers.parts import find_spared_parameters, find_weight_matrices
from linattn_ref.mixers.retnet import GatedRetNetMixer, RetNetMixer, RetNetOptions
from linattn_ref.mixers.rwkv import RWKV4Mixer, RWKV6Mixer
from linattn_ref.mixers.rwkv7 import RWKV7Mixer
from linattn_ref.mixers.s4d import DiagonalSSMOptions, H3Mixer, S4DMixer
from linattn_ref.mixers.softmax import SoftmaxMixer, SoftmaxOptions
from linattn_ref.mixers.states import detach_state, expand_state, reorder_state
from linattn_ref.mixers.tnl import TNLMixer, TNLOptions

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
    "kda": KDAMixer,
    "rwkv7": RWKV7Mixer,
}


def mixer_class(name: str) -> type[Mixer]:
    """Return the class of the mixer of that name.

    Args:
        name: a key of ``MIXERS``, as in ``ModelConfig.mixer``.

    Returns:
        The class.

    Raises:
        ValueError: for a name that is not in ``MIXERS``.

    Example:
        >>> mixer_class("gla").__name__
        'GLAMixer'
    """
    if not isinstance(name, str) or name not in MIXERS:
        raise ValueError(f"mixer: got {name!r}, expected one of {sorted(MIXERS)}")
    return MIXERS[name]


__all__ = [
    "MIXERS",
    "Cosformer2Mixer",
    "Cosformer2Options",
    "CosformerMixer",
    "CosformerOptions",
    "DeltaNetMixer",
    "DeltaNetOptions",
    "DiagonalSSMOptions",
    "GLAMixer",
    "GatedDeltaNetMixer",
    "GatedDeltaNetOptions",
    "GatedRetNetMixer",
    "H3Mixer",
    "HGRN2Mixer",
    "KDAMixer",
    "LinearMixer",
    "LinearOptions",
    "MLSTMMixer",
    "MLSTMOptions",
    "Mamba2Mixer",
    "Mamba2Options",
    "MambaMixer",
    "MambaOptions",
    "Mixer",
    "Options",
    "RWKV4Mixer",
    "RWKV6Mixer",
    "RWKV7Mixer",
    "RetNetMixer",
    "RetNetOptions",
    "S4DMixer",
    "SoftmaxMixer",
    "SoftmaxOptions",
    "StateEquation",
    "TNLMixer",
    "TNLOptions",
    "detach_state",
    "expand_state",
    "find_spared_parameters",
    "find_weight_matrices",
    "mixer_class",
    "reorder_state",
]
