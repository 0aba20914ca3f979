"""Wrong arguments of the ops whose sequences are channels."""

from tests.ops.wrong_arguments import CHUNK, B, Bad, K, T, V, beside, in_part, out_of, shape

D, N = K, V  # channels, and numbers of state in each


def channels(name: str) -> list[Bad]:
    """Return rows for the sequence of channels itself, [B, T, D]."""
    return [
        Bad("that is no tensor", name, lambda x: x.tolist(), ("list", "torch.Tensor")),
        Bad("that is None", name, lambda x: None, ("NoneType", "torch.Tensor")),
        Bad("of one sequence", name, lambda x: x[0], (shape(T, K), "[B, T, D]")),
        Bad("without tokens", name, lambda x: x[:, :0], (shape(B, 0, K), "no empty dimension")),
        Bad("of integers", name, lambda x: x.long(), ("torch.int64", "floating")),
    ]


SSM_STATE = beside("initial_state", B, D, N)
STEPS = out_of("delta", ">= 0", "")
A_ROWS = [
    *(bad for bad in beside("A", D, N) if bad.claim not in ("that is too short", "with a dimension more")),
    Bad("with a channel less", "A", lambda x: x[1:], (shape(D - 1, N), f"D = {D}")),
    Bad("with a dimension more", "A", lambda x: x[None], (shape(1, D, N), "[D, N]")),
    *out_of("A", "", "<= 0"),
]
LTI = [
    *channels("u"),
    *beside("delta", D),
    *STEPS,
    *A_ROWS,
    *(bad for name in "BC" for bad in beside(name, D, N)),
    *(
        Bad("that is complex beside a real A", name, lambda x: x + 0j, ("torch.complex64", "torch.float32"))
        for name in "BC"
    ),
    Bad("that is complex beside real B and C", "A", lambda x: x + 0j, ("torch.float32", "complex64"), "B"),
    *beside("D", D),
    Bad("that is unknown", "method", lambda x: "hold", ("'hold'", "'zoh'", "'bilinear'", "'euler'")),
    *SSM_STATE,
]
SCAN = [
    *channels("u"),
    *beside("delta", B, T, D),
    *STEPS,
    *A_ROWS,
    *(bad for name in "BC" for bad in beside(name, B, T, N)),
    *beside("D", D),
    Bad("that is unknown", "hold", lambda x: "zoh", ("'zoh'", "'euler'", "'exact'")),
    *SSM_STATE,
]
WKV = [
    *channels("k"),
    *CHUNK,
    Bad("of another width", "v", lambda x: x[..., :-1], (shape(B, T, D - 1), shape(B, T, D))),
    Bad("of half precision", "v", lambda x: x.half(), ("torch.float16", "torch.float32")),
    *beside("w", D),
    *out_of("w", ">= 0", ""),
    *beside("u", D),
    Bad("that is one tensor", "initial_state", lambda s: s.a, ("Tensor", "WKVState")),
    *(
        Bad(f"whose {part} {bad.claim}", "initial_state", in_part(part, bad.spoil), bad.words, bad.argument)
        for part in "abm"
        for bad in beside(f"initial_state.{part}", B, D)
    ),
]
