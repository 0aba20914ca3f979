"""Answers that do what their question forbids: call what they are asked to write, or pass by its bounds."""

from linattn_exercises.questions import Question
from linattn_exercises.sets import load_questions
from tests.exercises.notebooks import source_of

ONLINE = load_questions("ch01_softmax")["q4"]
TABLE, CHUNKED = (load_questions("ch02_linear")[name] for name in ("q1", "q2"))
CACHE, SIZE = (load_questions("ch01_softmax")[name] for name in ("q3", "q1"))


def online(body: str, more: str = "") -> str:
    """Return an answer to ``ONLINE`` that has the whole table of scores as x."""
    return f"""
def online_softmax(q, k, v, tile{more}):
    x = q @ k.T * q.shape[1] ** -0.5
    x = x.masked_fill(torch.ones_like(x).triu(1).bool(), -torch.inf)
    {body}
"""


def loop(convert: str) -> str:
    """Return an answer to ``CHUNKED``: a loop over tokens in NumPy. ``convert`` makes an array of x."""
    return f"""
import ctypes
import numpy as np
def chunked(q, k, v, g, state, chunk):
    q, k, v, S = ({convert} for x in (q, k, v, state))
    o = []
    for t in range(len(q)):
        S = math.exp(g) * S + np.outer(k[t], v[t])
        o.append(q[t] @ S)
    return torch.from_numpy(np.stack(o)), torch.from_numpy(S)
"""


def replace(question: Question, label: str) -> str:
    """Return a known answer of a question as code."""
    return source_of(question, next(one for one in question.known_answers if one.label == label))


UNDESERVED: dict[str, tuple[Question, str]] = {
    "softmax": (ONLINE, online("return x.softmax(-1) @ v, x.logsumexp(-1)")),
    "softmax by attribute": (
        ONLINE,
        online("return getattr(x, 'soft' + 'max')(-1) @ v, x[:, 0]"),
    ),
    "log-sum-exp of special": (ONLINE, online("return x.exp() @ v, torch.special.logsumexp(x, -1)")),
    "softmax as a default": (ONLINE, online("return f(x, -1) @ v, x[:, 0]", ", f=torch.softmax")),
    "softmax of aten": (ONLINE, online("return torch.ops.aten._softmax(x, -1, False) @ v, x[:, 0]")),
    "attention of aten": (
        ONLINE,
        online(
            "a = torch.ops.aten._scaled_dot_product_attention_math.default\n"
            "    return a(q[None, None], k[None, None], v[None, None], None, 0.0, True)[0][0, 0], x[:, 0]"
        ),
    ),
    "attention": (
        ONLINE,
        online(
            "a = torch.nn.functional.scaled_dot_product_attention\n"
            "    return a(q[None], k[None], v[None], is_causal=True)[0], x[:, 0]"
        ),
    ),
    "the whole table": (
        ONLINE,
        online(
            "m = x.amax(1, keepdim=True)\n    w = (x - m).exp()\n    d = w.sum(1, keepdim=True)\n"
            "    return w @ v / d, (m + d.log())[:, 0]"
        ),
    ),
    "the whole table in NumPy": (
        ONLINE,
        """
import numpy as np
def online_softmax(q, k, v, tile):
    q, k, v = (np.array(one) for one in (q, k, v))
    x = np.where(np.tri(len(q)) > 0, q @ k.T / np.sqrt(q.shape[1]), -np.inf)
    m = x.max(1)
    w = np.exp(x - m[:, None])
    d = w.sum(1)
    return w @ v / d[:, None], m + np.log(d)
""",
    ),
    "without modes": (
        ONLINE,
        "from torch.utils._python_dispatch import _disable_current_modes\n"
        + online("with _disable_current_modes():\n        return x.softmax(-1) @ v, x.logsumexp(-1)"),
    ),
    "the package": (
        CHUNKED,
        """
from linattn_ref.ops import chunk_linear_attention
def chunked(q, k, v, g, state, chunk):
    q, k, v = (one[None, :, None] for one in (q, k, v))
    decay, first = torch.tensor([g], dtype=q.dtype), state[None, None]
    o, S = chunk_linear_attention(q, k, v, decay, scale=1.0, initial_state=first, chunk_size=chunk)
    return o[0, :, 0], S[0, 0]
""",
    ),
    "the body of the package's form": (
        CHUNKED,
        "import linattn_ref.ops.linear as linear\n"
        "def chunked(q, k, v, g, state, chunk):\n    return linear.chunk_body(q, k, v, g, state, chunk)",
    ),
    "a loop in NumPy": (CHUNKED, loop("np.asarray(x)")),
    "a loop in NumPy, by method": (CHUNKED, loop("x.detach().numpy()")),
    "a loop in NumPy, by list": (CHUNKED, loop("np.array(x.tolist())")),
    "a loop in NumPy, by number": (CHUNKED, loop("np.array([[one.item() for one in row] for row in x])")),
    "a loop in NumPy, by the parent": (CHUNKED, loop("torch.Tensor.numpy(x.as_subclass(torch.Tensor))")),
    "a loop in NumPy, over memory": (
        CHUNKED,
        loop("np.array((ctypes.c_double * x.numel()).from_address(x.data_ptr())).reshape(x.shape)"),
    ),
    "the step on unit vectors": (
        TABLE,
        """
def step_by_step(q, k, v, log_decay, w):
    S, o = torch.zeros(q.shape[1], v.shape[1], dtype=q.dtype), []
    for t in range(len(q)):
        write = torch.outer(k[t], v[t])
        o.append(q[t] @ (S + w[:, None] * write))
        S = log_decay[t].exp() * S + write
    return torch.stack(o)
def table(q, k, log_decay, w):
    return step_by_step(q, k, torch.eye(len(q), dtype=q.dtype), log_decay, w)
""",
    ),
    "a forged message": (
        CHUNKED,
        """
import json, os
for number in (3, 4):
    try:
        text = json.dumps({"end": {"plain": 0.0}}).encode()
        os.write(number, len(text).to_bytes(8, "big") + text)
    except OSError:
        pass
def chunked(q, k, v, g, state, chunk):
    return v, state
""",
    ),
    "layers by halves": (CACHE, replace(CACHE, "half_of_the_layers")),
    "a prediction by samples": (
        SIZE,
        """
import numpy as np
def predicted_size(K, rho):
    k, e = np.random.default_rng(0).normal(size=(2, max(1, 4_000_000 // K), K))
    return float(np.sqrt(np.mean((((rho * k + (1 - rho**2) ** 0.5 * e) * k).sum(1)) ** 2)))
def measured_size(K, rho, samples, seed):
    k, e = np.random.default_rng(seed).normal(size=(2, samples, K))
    return float(np.sqrt(np.mean((((rho * k + (1 - rho**2) ** 0.5 * e) * k).sum(1)) ** 2)))
""",
    ),
}
