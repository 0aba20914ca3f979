"""Define the pairs that ops return, ``(output, state)``, and the states that are more than one tensor."""

from typing import NamedTuple

from linattn_ref.ops.shapes import Tensor


class LinearResult(NamedTuple):
    """Hold the output and the last state of an op whose state is a matrix per head.

    Attributes:
        output: ``[B, T, H, V]``, in q's dtype.
        state: ``[B, H, K, V]``, in float32, or float64 beside float64: what the next call takes as
            ``initial_state`` (a step: as ``state``).

    Example:
        >>> import torch
        >>> from linattn_ref.ops import recurrent_linear_attention
        >>> q = k = v = torch.ones(1, 3, 1, 2)
        >>> output, state = recurrent_linear_attention(q, k, v, scale=1.0)
        >>> output[0, :, 0, 0].tolist(), list(state.shape)
        ([2.0, 4.0, 6.0], [1, 1, 2, 2])
    """

    output: Tensor
    state: Tensor


class KVCache(NamedTuple):
    """Hold the keys and values of all S tokens so far: the state of softmax attention.

    Attributes:
        k: ``[B, S, H, K]``, in the dtype of the inputs.
        v: ``[B, S, H, V]``, in the dtype of the inputs.

    Example:
        >>> import torch
        >>> cache = KVCache(k=torch.ones(1, 5, 2, 4), v=torch.ones(1, 5, 2, 3))
        >>> list(cache.k.shape)
        [1, 5, 2, 4]
    """

    k: Tensor
    v: Tensor


class SoftmaxResult(NamedTuple):
    """Hold the output of softmax attention and its cache, which has grown by the T tokens of the call.

    Attributes:
        output: ``[B, T, H, V]``, in q's dtype.
        state: ``KVCache`` of S + T tokens.

    Example:
        >>> import torch
        >>> from linattn_ref.ops import parallel_softmax_attention
        >>> q = k = v = torch.ones(1, 3, 1, 2)
        >>> output, cache = parallel_softmax_attention(q, k, v)
        >>> list(output.shape), list(cache.k.shape)
        ([1, 3, 1, 2], [1, 3, 1, 2])
    """

    output: Tensor
    state: KVCache


class ChannelResult(NamedTuple):
    """Hold the output and the last state of a state space model, which has N numbers of state per channel.

    Attributes:
        output: ``[B, T, D]``, in u's dtype.
        state: ``[B, D, N]``, in float32 (float64 beside float64), or the complex dtype of that precision.

    Example:
        >>> import torch
        >>> from linattn_ref.ops import recurrent_lti_ssm
        >>> u, delta, A = torch.ones(1, 3, 2), torch.ones(2), -torch.ones(2, 4)
        >>> output, state = recurrent_lti_ssm(u, delta, A, B=-A, C=-A)
        >>> list(output.shape), list(state.shape)
        ([1, 3, 2], [1, 2, 4])
    """

    output: Tensor
    state: Tensor


class WKVState(NamedTuple):
    """Hold what RWKV-4 has read: a numerator ``a e^m`` and a denominator ``b e^m`` per channel.

    Attributes:
        a: ``[B, D]``, float32 at least.
        b: ``[B, D]``, float32 at least.
        m: ``[B, D]``, float32 at least, the largest exponent so far; -inf says that nothing was read.

    Example:
        >>> import torch
        >>> nothing = WKVState(a=torch.zeros(1, 2), b=torch.zeros(1, 2), m=torch.full((1, 2), -torch.inf))
        >>> nothing.m.tolist()
        [[-inf, -inf]]
    """

    a: Tensor
    b: Tensor
    m: Tensor


class WKVResult(NamedTuple):
    """Hold the output and the last state of RWKV-4's weighted mean.

    Attributes:
        output: ``[B, T, D]``, in k's dtype.
        state: ``WKVState`` of three tensors ``[B, D]``.

    Example:
        >>> import torch
        >>> from linattn_ref.ops import recurrent_wkv
        >>> k, v, w, u = torch.zeros(1, 3, 1), torch.ones(1, 3, 1), torch.ones(1), torch.ones(1)
        >>> output, state = recurrent_wkv(k, v, w, u)
        >>> output.flatten().tolist(), list(state.m.shape)
        ([1.0, 1.0, 1.0], [1, 1])
    """

    output: Tensor
    state: WKVState
