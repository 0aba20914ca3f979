"""Count what a setting must compute and move: floating-point operations and bytes.

Operations are those of the chunk form with 64 tokens a chunk, C, each multiply-add as two, whole tiles as a
matrix unit computes them. Per token and head: scores of the chunk 2 C K, their product with v 2 C V, writing
the state 2 K V, reading it 2 K V. A backward pass has two products for each of the forward's, so both
together are 3 times forward. The delta rule: scores among keys as well, 2 C K, what the system makes of v,
2 C V, and what the keys read, 2 K V. Softmax attention: half of the table, T^2 (K + V) per head; backward is
2.5 times that, since it makes the scores anew. A step: 4 K V per head, or 2 L (K + V) against L tokens.
"""

from linattn_benchmarks.kernels.settings import KernelSetting

C = 64


def count_flops(setting: KernelSetting) -> float:
    """Return the floating-point operations of a setting."""
    heads, K, V = setting.B * setting.H, setting.D, setting.D
    if setting.softmax and setting.mode == "step":
        return heads * 2 * (setting.cache + 1) * (K + V)
    if setting.softmax:
        return heads * setting.T**2 * (K + V) * (3.5 if setting.mode == "fwdbwd" else 1)
    if setting.mode == "step":
        return heads * 4 * K * V
    tables, states = (4, 6) if setting.delta_rule else (2, 4)
    forward = heads * setting.T * (tables * C * (K + V) + states * K * V)
    return forward * (3 if setting.mode == "fwdbwd" else 1)


def count_moved_bytes(setting: KernelSetting) -> int:
    """Return the bytes that memory must move at least: each input is read once, each result written once.

    Forward: q, k, v, log_decay; o and the last state. Backward reads q, k, v, log_decay and do again and
    writes dq, dk, dv and the gradient of a gate; nothing kept in between is counted. The strengths of the
    delta rule are read, and their gradient written, as a gate's in the dtype of q. A step reads its state
    as well; the softmax step reads its cache and writes one token to it. Decays and linear states are
    float32.
    """
    B, T, H, D = setting.B, setting.T, setting.H, setting.D
    row = B * T * H * D * setting.dtype.itemsize  # of q, k, v, o and their gradients
    gate = 4 * {"none": 0, "H": H, "BTH": B * T * H, "BTHK": B * T * H * D}[setting.decay]
    state = 0 if setting.softmax else 4 * B * H * D * D
    beta = B * T * H * setting.dtype.itemsize if setting.delta_rule else 0
    if setting.mode == "step" and setting.softmax:
        return 2 * setting.cache * row + 3 * row + 2 * row + row
    forward = 3 * row + gate + beta + row + state
    if setting.mode == "step":
        return forward + state
    if setting.mode == "fwd":
        return forward
    return forward + 4 * row + gate + 2 * beta + 3 * row + (gate if setting.decay in ("BTH", "BTHK") else 0)
