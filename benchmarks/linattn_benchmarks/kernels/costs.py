"""What a case must compute and move, by count: floating-point operations and bytes.

Operations are those of the chunk form with 64 tokens a chunk, C, each multiply-add as two, whole tiles as a
matrix unit computes them. Per token and head: scores of the chunk 2 C K, their product with v 2 C V, writing
the state 2 K V, reading it 2 K V. A backward pass has two products for each of the forward's, so both
together are 3 times forward. Softmax attention: half of the table, T^2 (K + V) per head; backward is 2.5
times that, since it makes the scores anew. A step: 4 K V per head, or 2 L (K + V) against L tokens.
"""

from linattn_benchmarks.kernels.cases import Case

C = 64


def flops(case: Case) -> float:
    heads, K, V = case.B * case.H, case.D, case.D
    if case.softmax and case.mode == "step":
        return heads * 2 * (case.cache + 1) * (K + V)
    if case.softmax:
        return heads * case.T**2 * (K + V) * (3.5 if case.mode == "fwdbwd" else 1)
    if case.mode == "step":
        return heads * 4 * K * V
    return heads * case.T * (2 * C * (K + V) + 4 * K * V) * (3 if case.mode == "fwdbwd" else 1)


def moved_bytes(case: Case) -> int:
    """What the memory cannot be spared: each input read once, each result written once.

    Forward: q, k, v, log_decay; o and the last state. Backward reads q, k, v, log_decay and do again and
    writes dq, dk, dv and the gradient of a gate; nothing kept in between is counted. A step reads its state
    as well; the softmax step reads its cache and writes one token to it. Decays and linear states are
    float32.
    """
    row = case.B * case.T * case.H * case.D * case.dtype.itemsize  # of q, k, v, o and their gradients
    gate = 4 * {"none": 0, "H": case.H, "BTH": case.B * case.T * case.H}.get(
        case.decay, case.B * case.T * case.H * case.D
    )
    state = 0 if case.softmax else 4 * case.B * case.H * case.D * case.D
    if case.mode == "step" and case.softmax:
        return 2 * case.cache * row + 3 * row + 2 * row + row
    forward = 3 * row + gate + row + state
    if case.mode == "step":
        return forward + state
    if case.mode == "fwd":
        return forward
    return forward + 4 * row + gate + 3 * row + (gate if case.decay in ("BTH", "BTHK") else 0)
