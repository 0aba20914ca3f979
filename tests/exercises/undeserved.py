"""Answers that do what their question forbids: call what they are asked to write, or pass by its bounds."""

from linattn_exercises.questions import Question
from linattn_exercises.sets import load_questions
from tests.exercises.notebooks import source_of

ONLINE = load_questions("ch01_softmax")["q4"]
TABLE, CHUNKED = (load_questions("ch02_linear")[name] for name in ("q1", "q2"))
CACHE, SIZE = (load_questions("ch01_softmax")[name] for name in ("q3", "q1"))
LOSS, MERGE = (load_questions("ch01_softmax")[name] for name in ("q2", "q5"))
VANISHES, EVEN = (load_questions("ch02_linear")[name] for name in ("q3", "q5"))
FORGET, LIFE, GATED, BOUND = (load_questions("ch03_decay")[name] for name in ("q1", "q2", "q3", "q4"))
DIGITS, STAIRCASE = load_questions("ch09_recall")["q3"], load_questions("ch08_scale")["q2"]


def online(body: str, more: str = "") -> str:
    """Return an answer to ``ONLINE`` that has the whole table of scores as x."""
    return f"""
def online_softmax(q, k, v, tile{more}):
    x = q @ k.T * q.shape[1] ** -0.5
    x = x.masked_fill(torch.ones_like(x).triu(1).bool(), -torch.inf)
    {body}
"""


def two_passes(body: str) -> str:
    """Return an answer to ``ONLINE`` that goes over the tiles twice; ``body`` yields scores and values."""
    return f"""
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    t = torch.arange(S - T, S)[:, None]
    def tiles():
        for a, b, j in zip(k.split(tile), v.split(tile), torch.arange(S).split(tile)):
{body}
    m = torch.full((T, 1), -torch.inf, dtype=q.dtype)
    for x, _ in tiles():
        m = torch.maximum(m, x.amax(1, keepdim=True))
    d = u = 0.0
    for x, b in tiles():
        w = (x - m).exp()
        d, u = d + w.sum(1, keepdim=True), u + w @ b
    return u / d, (m + d.log())[:, 0]
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


def shifted(shift: str) -> str:
    """Return an answer to ``LOSS`` that subtracts from each row a shift that is not its maximum."""
    return f"""
fault = "C"
def repaired(q, k, v):
    x = q @ k.T * q.shape[-1] ** -0.5
    seen, own = x.masked_fill(torch.ones_like(x).triu(1).bool(), -torch.inf), x.diagonal()
    w = (seen - ({shift})[:, None]).exp()
    return w @ v / w.sum(-1, keepdim=True)
"""


def measured_against(reference: str) -> str:
    """Return an answer to ``ONLINE`` whose reference is known before the first tile, and stays."""
    return f"""
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    t = torch.arange(S - T, S)
    own, hidden = (q * k[t]).sum(1), torch.arange(S)[:tile] > t[:, None]
    first = (q @ k[:tile].T).masked_fill(hidden, -torch.inf)
    m = ({reference})[:, None] * K**-0.5
    d = u = 0.0
    for a, b, j in zip(k.split(tile), v.split(tile), torch.arange(S).split(tile)):
        w = ((q @ a.T * K**-0.5).masked_fill(j > t[:, None], -torch.inf) - m).exp()
        d, u = d + w.sum(1, keepdim=True), u + w @ b
    return u / d, (m + d.log())[:, 0]
"""


def rows_of_scores(pack: str, unpack: str) -> str:
    """Return an answer to ``ONLINE`` that keeps whole rows of scores of some queries, each in pieces."""
    return f"""
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    n = max(T, tile) * max(tile, K, v.shape[1] + 1)
    some, o, l = max(1, min(T, 7 * n // S)), [], []
    for Q, t in zip(q.split(some), torch.arange(S - T, S).split(some)):
        width, x, m = max(1, n // len(Q)), [], None
        for a, j in zip(k.split(width), torch.arange(S).split(width)):
            y = (Q @ a.T).mul_(K**-0.5).masked_fill_(j > t[:, None], -torch.inf)
            m = y.amax(1, keepdim=True) if m is None else torch.maximum(m, y.amax(1, keepdim=True))
            x.append({pack or "y"})
        d = u = 0.0
        for y, b in zip(x, v.split(width)):
            w = ({unpack} - m).exp()
            d, u = d + w.sum(1, keepdim=True), u + w @ b
        o.append(u / d)
        l.append((m + d.log())[:, 0])
        del x, y, w
    return torch.cat(o), torch.cat(l)
"""


def cached(count: str, most: str = "") -> str:
    """Return an answer to ``CACHE``: ``count`` layers have a window; ``most`` says what windows hold."""
    return f"""
def cache_bytes(config, tokens, batch):
    size = {{"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}}[config["torch_dtype"]]
    layers, heads = config["num_hidden_layers"], config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    window, kinds = config.get("sliding_window") or tokens, config.get("layer_types") or []
    sliding = {count}
    kept = sliding * min(tokens, window) + (layers - sliding) * tokens
    return 2 * batch * kept * (config.get("num_key_value_heads") or heads) * width * size
def most_tokens(config, free_bytes, batch):
    kinds, window = config.get("layer_types") or [], config.get("sliding_window")
    one, full = cache_bytes(config, 1, batch), kinds.count("full_attention")
    if kinds and not full or not kinds and window:
        {most or "held = cache_bytes(config, window, batch) if window else math.inf"}
        return math.inf if free_bytes >= held else free_bytes // one
    if window and free_bytes >= (held := cache_bytes(config, window, batch)):
        return window + (free_bytes - held) // (one // len(kinds) * full)
    return free_bytes // one
"""


def dropped_beyond(gap: float) -> str:
    """Return an answer to ``MERGE`` that leaves out a part whose maximum is so far below the other's."""
    return f"""
def merge(a, b):
    if a[0] < b[0]:
        a, b = b, a
    if a[0] == -math.inf or a[0] - b[0] > {gap}:
        return a
    g = math.exp(b[0] - a[0])
    return a[0], a[1] + g * b[1], a[2] + g * b[2]
"""


def split_at(boundary: str, own: str = "") -> str:
    """Return an answer to ``GATED`` split at a boundary; ``own`` makes the blocks on the diagonal."""
    own = own or "(Q[:, None] * k[m:e] * (x[:, None] - x).clamp(max=0).exp()).sum(-1)"
    return f"""
def table(q, k, log_decay, part):
    c, C = log_decay.cumsum(0), len(q)
    A = torch.zeros(C, C, dtype=q.dtype)
    for m in range(0, C, part):
        e = min(m + part, C)
        Q, x, edge = q[m:e], c[m:e], {boundary}
        A[m:e, :m] = (Q * (x - edge).exp()) @ (k[:m] * (edge - c[:m]).exp()).T
        A[m:e, m:e] = ({own}).tril()
    return A
"""


def fitted(
    prepare: str = "", lives: str = "[2 ** (n / 60) for n in range(60, 500)]", end: str = "life"
) -> str:
    """Return an answer to ``LIFE``: the best of some half-lives, and what is made of it."""
    return f"""
def half_life(q, k, v, o):
    {prepare or "pass"}
    age = torch.arange(len(q))[:, None] - torch.arange(len(q))
    def error(life):
        return ((2.0 ** (-age / life)).tril() * (q @ k.T) @ v - o).square().sum().item()
    life = min({lives}, key=error)
    return {end}
"""


def repaired_with(scales: str) -> str:
    """Return an answer to ``VANISHES`` that scales the features a and b of queries and keys."""
    return f"""
fault = "B"
def zero_below(bits):
    return -(bits + 1) * math.log(2)
def repaired(q, k, v):
    a, b = (torch.where(x > 0, x + 1, x.clamp(max=0).exp()) for x in (q, k))
    {scales}
    weight = (a @ b.T).tril()
    return weight @ v / weight.sum(-1, keepdim=True)
"""


def masked_by(start: str, hidden: str) -> str:
    """Return an answer to ``ONLINE`` with finite numbers where minus infinity belongs."""
    return f"""
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    t = torch.arange(S - T, S)[:, None]
    m, d, u = torch.full((T, 1), {start}, dtype=q.dtype), 0.0, 0.0
    for a, b, j in zip(k.split(tile), v.split(tile), torch.arange(S).split(tile)):
        x = (q @ a.T * K**-0.5).masked_fill(j > t, {hidden})
        new = torch.maximum(m, x.amax(1, keepdim=True))
        w = (x - new).exp()
        d, u, m = (m - new).exp() * d + w.sum(1, keepdim=True), (m - new).exp() * u + w @ b, new
    return u / d, (m + d.log())[:, 0]
"""


def replace(question: Question, label: str) -> str:
    """Return a known answer of a question as code."""
    return source_of(question, next(one for one in question.known_answers if one.label == label))


STRIDES = """
def values(x):
    bits = x.contiguous().view(torch.int64).reshape(-1)
    arguments = bits, [0] * len(bits), list(bits.unbind())
    told = x.link.run(torch.ops.aten.as_strided.default, arguments, {}).stride()
    return np.array(told, dtype=np.int64).view(np.float64).reshape(tuple(x.shape))
"""
ERRORS = """
import re
def values(x):
    one, found = torch.zeros(1), []
    for bits in x.contiguous().view(torch.int64).reshape(-1, 1).unbind():
        try:
            one[bits]
        except IndexError as error:
            found.append(int(re.search(r"index (-?[0-9]+)", str(error))[1]))
    return np.array(found, dtype=np.int64).view(np.float64).reshape(tuple(x.shape))
"""
LISTS = """
import re
def values(x):
    found, big = [], 2.0**46
    for part in (x.reshape(-1) * big).round().to(torch.int64).split(50):
        request = {"run": "aten::exp", "overload": "default", "default": "float32", "kwargs": {}}
        try:
            x.link._request(request | {"args": [{"list": [{"handle": part.handle}]}]})
        except Exception as error:
            found += map(int, re.findall("-?[0-9]+", str(error).partition("tensor([")[2].partition("]")[0]))
    return (np.array(found, dtype=float) / big).reshape(tuple(x.shape))
"""
NOT_IN_LIST = """
import re
def values(x):  # of numbers between 0 and 1
    y, found = x.reshape(-1) * 1e5, []
    high = y.floor()
    for part in torch.cat([high, ((y - high) * 1e5).floor()]).to(torch.int64).split(130):
        request = {"run": "aten::index", "overload": "list_Tensor", "default": "float32", "kwargs": {}}
        try:
            x.link._request(request | {"args": [{"list": []}, {"handle": part.handle}]})
        except Exception as error:
            told = str(error).partition("[ CPU")[0].partition("[ torch")[0]
            found += [int(float(n)) for n in re.findall("-?[0-9.]+", told)]
    high, low = np.array(found, dtype=float).reshape(2, -1)
    return (high / 1e5 + low / 1e10).reshape(tuple(x.shape))
"""
MASKED = """
import re
def values(x):  # of numbers between 0 and 1, by the sizes of masks that an error lists
    M, digits, found = 1024, [], []
    y = x.reshape(-1) * 0.999
    for _ in range(3):
        y = y * M
        digits.append(y.floor())
        y = y - digits[-1]
    masks = list((torch.arange(M) <= torch.stack(digits).reshape(-1, 1)).unbind())  # digit + 1 truths in each
    two = masks[0].new_zeros(2, M)
    two[0, :2] = True
    two[1, :3] = True
    empty = torch.zeros([0] + [1] * 56).expand([0] + [M] * 56)
    while masks:
        part, masks = masks[:54], masks[54:]
        try:
            empty[(slice(None), *two.unbind(), *part)]
        except IndexError as error:
            found += [int(n) - 1 for n in re.findall("[0-9]+", str(error).partition("with shapes")[2])[2:]]
    d = np.array(found, dtype=float).reshape(3, -1)
    return (((d[2] + 0.5) / M + d[1]) / M + d[0]) / M / 0.999
"""
TABLE_BY_TOKENS = """
import numpy as np
def table(q, k, log_decay, w):
    alpha = values(log_decay.exp())
    D, row = np.zeros((len(alpha), len(alpha))), np.zeros(len(alpha))
    for t in range(len(alpha)):
        D[t] = row
        row = alpha[t] * row
        row[t] = 1.0
    return torch.from_numpy(D) * (q @ k.T) + torch.diag((q * w * k).sum(-1))
"""
PACKED = """
def values(x):
    n = ((x.reshape(-1).clamp(-6, 6) + 6) / 12 * (2**21 - 1)).round().to(torch.int64)
    n = torch.cat([n, n.new_zeros(-len(n) % 3)]).reshape(-1, 3)
    found = []
    for one in (n[:, 0] * 2**42 + n[:, 1] * 2**21 + n[:, 2]).unbind():
        one = one.item()
        found += [one >> 42, (one >> 21) & (2**21 - 1), one & (2**21 - 1)]
    return (np.array(found[: x.numel()]) / (2**21 - 1) * 12 - 6).reshape(tuple(x.shape))
"""


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
    "decompositions of torch": (
        ONLINE,
        """
from torch._decomp.decompositions import _softmax
from torch._refs import logsumexp
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    n = max(tile, K, v.shape[1] + 1)
    o, l = [], []
    for Q, i in zip(q.split(n), torch.arange(S - T, S).split(n)):
        x = (Q @ k.T * K**-0.5).masked_fill(torch.arange(S) > i[:, None], -torch.inf)
        o.append(_softmax(x, -1, False) @ v)
        l.append(logsumexp(x, -1))
    return torch.cat(o), torch.cat(l)
""",
    ),
    "strips of queries": (
        ONLINE,
        """
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    n = max(1, T * max(tile, K, v.shape[1] + 1) // S)
    o, l = [], []
    for Q, i in zip(q.split(n), torch.arange(S - T, S).split(n)):
        x = (Q @ k.T * K**-0.5).masked_fill(torch.arange(S) > i[:, None], -torch.inf)
        m = x.amax(1, keepdim=True)
        w = (x - m).exp()
        d = w.sum(1, keepdim=True)
        o.append(w @ v / d)
        l.append((m + d.log())[:, 0])
    return torch.cat(o), torch.cat(l)
""",
    ),
    "all tiles kept": (
        ONLINE,
        """
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    t = torch.arange(S - T, S)[:, None]
    parts = list(zip(k.split(tile), v.split(tile), torch.arange(S).split(tile)))
    x = [(q @ a.T * K**-0.5).masked_fill(j > t, -torch.inf) for a, _, j in parts]
    m = x[0].amax(1, keepdim=True)
    for one in x[1:]:
        m = torch.maximum(m, one.amax(1, keepdim=True))
    w = [(one - m).exp() for one in x]
    d = sum(one.sum(1, keepdim=True) for one in w)
    return sum(one @ b for one, (_, b, _) in zip(w, parts)) / d, (m + d.log())[:, 0]
""",
    ),
    "each score twice": (
        ONLINE,
        two_passes(
            """
            yield (q @ a.T * K**-0.5).masked_fill(j > t, -torch.inf), b
"""
        ),
    ),
    "the table in strips": (
        CHUNKED,
        """
def chunked(q, k, v, g, state, chunk):
    T = len(q)
    i = torch.arange(T, dtype=q.dtype)
    o = []
    for Q, n in zip(q.split(chunk), i.split(chunk)):
        gap = n[:, None] - i
        D = (g * gap.clamp(min=0)).exp().masked_fill(gap < 0, 0)
        o.append((D * (Q @ k.T)) @ v + (g * (n + 1)).exp()[:, None] * (Q @ state))
    left = (g * (T - 1 - i)).exp()[:, None]
    return torch.cat(o), math.exp(g * T) * state + (left * k).T @ v
""",
    ),
    "all earlier tokens read again": (
        CHUNKED,
        """
def chunked(q, k, v, g, state, chunk):
    o, i = [], torch.arange(len(q), dtype=q.dtype)
    for start in range(0, len(q), chunk):
        stop = min(start + chunk, len(q))
        gap = i[start:stop, None] - i[:stop]
        D = (g * gap.clamp(min=0)).exp().masked_fill(gap < 0, 0)
        old = (g * (i[start:stop] + 1)).exp()[:, None] * (q[start:stop] @ state)
        o.append((D * (q[start:stop] @ k[:stop].T)) @ v[:stop] + old)
    left = (g * (len(q) - 1 - i)).exp()[:, None]
    return torch.cat(o), math.exp(g * len(q)) * state + (left * k).T @ v
""",
    ),
    "a state that is not carried": (
        CHUNKED,
        """
def chunked(q, k, v, g, state, chunk):
    T, o = len(q), []
    def states(n):
        left = (g * (n - 1 - torch.arange(n, dtype=q.dtype))).exp()[:, None]
        return math.exp(g * n) * state + (left * k[:n]).T @ v[:n]
    for start in range(0, T, chunk):
        Q, K, V = (x[start : start + chunk] for x in (q, k, v))
        i = torch.arange(len(Q), dtype=q.dtype)
        D = (g * (i[:, None] - i).clamp(min=0)).exp().tril()
        o.append((g * (i + 1)).exp()[:, None] * (Q @ states(start)) + (D * (Q @ K.T)) @ V)
    return torch.cat(o), states(T)
""",
    ),
    "a loop over the places of a chunk": (
        CHUNKED,
        """
def chunked(q, k, v, g, state, chunk):
    T, K = q.shape
    n = -(-T // chunk)
    pad = n * chunk - T
    q, k, v = (torch.cat([x, x.new_zeros(pad, x.shape[1])]).view(n, chunk, -1) for x in (q, k, v))
    def run(S):
        o = []
        for a, b, c in zip(k.unsqueeze(-1).unbind(1), v.unsqueeze(2).unbind(1), q.unsqueeze(2).unbind(1)):
            S = torch.baddbmm(S, a, b, beta=math.exp(g))
            o.append(torch.bmm(c, S))
        return o, S
    _, own = run(q.new_zeros(n, K, v.shape[2]))
    S, first = state, []
    for c in range(n):
        first.append(S)
        S = math.exp(g * chunk) * S + own[c]
    o, last = run(torch.stack(first))
    return torch.cat(o, 1).reshape(n * chunk, -1)[:T], last[-1] * math.exp(-g * pad)
""",
    ),
    "a loop where powers would overflow": (
        CHUNKED,
        """
def chunked(q, k, v, g, state, chunk):
    S, o = state, []
    if g < -5:
        for t in range(len(q)):
            S = math.exp(g) * S + torch.outer(k[t], v[t])
            o.append(q[t] @ S)
        return torch.stack(o), S
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk)):
        i = torch.arange(len(Q), dtype=q.dtype)
        up, down = (g * i).exp()[:, None], (-g * i).exp()[:, None]
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + ((up * Q) @ (down * K).T).tril() @ V)
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S
""",
    ),
    "powers around the middle": (
        CHUNKED,
        """
def chunked(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk)):
        i = torch.arange(len(Q), dtype=q.dtype)
        up, down = (g * (i - len(Q) / 2)).exp()[:, None], (-g * (i - len(Q) / 2)).exp()[:, None]
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + ((up * Q) @ (down * K).T).tril() @ V)
        S = math.exp(g * len(Q)) * S + ((g * (len(Q) - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S
""",
    ),
    "an operation a token": (
        TABLE,
        """
def table(q, k, log_decay, w):
    decay, unit = log_decay.exp().unbind(), torch.eye(len(q), dtype=q.dtype).unbind()
    row, rows = torch.zeros(len(q), dtype=q.dtype), []
    for t in range(len(q)):
        rows.append(row)
        row = torch.addcmul(unit[t], decay[t], row)
    return torch.stack(rows) * (q @ k.T) + torch.diag((q * w * k).sum(-1))
""",
    ),
    "values by strides": (CHUNKED, STRIDES + loop("values(x)")),
    "values by an overload of numbers": (
        CHUNKED,
        """
def value(x):
    request = {"run": "aten::add", "overload": "float", "args": [{"handle": x.handle}, 0.0], "kwargs": {}}
    return x.link._request(request)["result"]
"""
        + loop("np.array([[value(one) for one in row] for row in x])"),
    ),
    "values by errors": (CHUNKED, ERRORS + loop("values(x)")),
    "values by errors that write out a tensor": (
        TABLE,
        LISTS + TABLE_BY_TOKENS,
    ),
    "values by an overload that returns a place": (TABLE, NOT_IN_LIST + TABLE_BY_TOKENS),
    "values by how many truths masks have": (TABLE, MASKED + TABLE_BY_TOKENS),
    "values packed in numbers": (CHUNKED, PACKED + loop("values(x)")),
    "an operation under another name": (
        ONLINE,
        """
def online_softmax(q, k, v, tile):
    def ask(how, what):
        return q.link._request({"run": "aten::acosh", "overload": how, "args": what, "kwargs": {}})
    try:
        ask("__delattr__", ["default"])
    except AttributeError:
        pass
    ask("__setattr__", ["_qualified_op_name", "aten::_softmax"])
    x = q.link._pack(q @ k.T)
    return q.link._unpack(ask("default", [x, -1, False])["result"]) @ v, q[:, 0]
""",
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
    "each score twice, by sums of products": (
        ONLINE,
        """
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    t = torch.arange(S - T, S)[:, None]
    def scores(a, j):
        x = torch.zeros(T, len(a), dtype=q.dtype)
        for c in range(K):
            x = torch.addcmul(x, q[:, c : c + 1], a[:, c])
        return (x * K**-0.5).masked_fill(j > t, -torch.inf)
    def tiles():
        return zip(k.split(tile), v.split(tile), torch.arange(S).split(tile))
    m = torch.full((T, 1), -torch.inf, dtype=q.dtype)
    for a, _, j in tiles():
        m = torch.maximum(m, (q @ a.T * K**-0.5).masked_fill(j > t, -torch.inf).amax(1, keepdim=True))
    d = u = 0.0
    for a, b, j in tiles():
        w = (scores(a, j) - m).exp()
        d, u = d + w.sum(1, keepdim=True), u + w @ b
    return u / d, (m + d.log())[:, 0]
""",
    ),
    "a log-sum-exp of torch's, two at a time": (
        ONLINE,
        """
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    t = torch.arange(S - T, S)[:, None]
    total, o = torch.full((T, 1), -torch.inf, dtype=q.dtype), 0.0
    for a, b, j in zip(k.split(tile), v.split(tile), torch.arange(S).split(tile)):
        x = (q @ a.T * K**-0.5).masked_fill(j > t, -torch.inf)
        old = total
        for c in range(x.shape[1]):
            total = torch.logaddexp(total, x[:, c : c + 1])
        o = o * (old - total).exp() + (x - total).exp() @ b
    return o, total[:, 0]
""",
    ),
    "tiles of a width of one's own": (
        ONLINE,
        """
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    t = torch.arange(S - T, S)[:, None]
    m, d, u = torch.full((T, 1), -torch.inf, dtype=q.dtype), 0.0, 0.0
    for a, b, j in zip(k.split(3), v.split(3), torch.arange(S).split(3)):
        x = (q @ a.T * K**-0.5).masked_fill(j > t, -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True))
        w = (x - new).exp()
        d, u, m = (m - new).exp() * d + w.sum(1, keepdim=True), (m - new).exp() * u + w @ b, new
    return u / d, (m + d.log())[:, 0]
""",
    ),
    "blocks of a size of one's own, place by place": (
        CHUNKED,
        """
def chunked(q, k, v, g, state, chunk):
    T, K = q.shape
    size = math.isqrt(T)
    n = -(-T // size)
    pad = n * size - T
    q, k, v = (torch.cat([x, x.new_zeros(pad, x.shape[1])]).view(n, size, -1) for x in (q, k, v))
    f = math.exp(g)
    own = 0.0
    for i in range(size):
        own = torch.add(k[:, i, :, None] * v[:, i, None], own, alpha=f)
    S, first = state, []
    for c in range(n):
        first.append(S)
        S = math.exp(g * size) * S + own[c]
    S, o = torch.stack(first), []
    for i in range(size):
        S = torch.add(k[:, i, :, None] * v[:, i, None], S, alpha=f)
        o.append(q[:, i, None] @ S)
    return torch.cat(o, 1).reshape(n * size, -1)[:T], S[-1] * math.exp(-g * pad)
""",
    ),
    "a scan of all tokens": (
        CHUNKED,
        """
def chunked(q, k, v, g, state, chunk):
    S = k[:, :, None] * v[:, None]
    S = torch.cat([S[:1] + math.exp(g) * state, S[1:]])
    step = 1
    while step < len(S):
        S = torch.cat([S[:step], S[step:] + math.exp(g * step) * S[:-step]])
        step *= 2
    return (q[:, None] @ S)[:, 0], S[-1]
""",
    ),
    "a table of three": (
        VANISHES,
        replace(VANISHES, "as_a_softmax")
        + "\ndef zero_below(bits):\n    return -math.log(2) * {24: 25, 11: 12, 8: 9}[bits]\n",
    ),
    "a log-sum-exp of torch's by another name": (
        ONLINE,
        """
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    t = torch.arange(S - T, S)[:, None]
    softplus = torch.nn.functional.softplus
    l, o = None, 0.0
    for a, b, j in zip(k.split(tile), v.split(tile), torch.arange(S).split(tile)):
        x = y = (q @ a.T * K**-0.5).masked_fill(j > t, -1e30)
        for c in range(1, x.shape[1]):
            y = softplus(x[:, c : c + 1] - y[:, :1], threshold=40) + y[:, :1]
        old, l = l, y[:, :1] if l is None else softplus(y[:, :1] - l, threshold=40) + l
        o = (o if old is None else o * (old - l).exp()) + (x - l).exp() @ b
    return o, l[:, 0]
""",
    ),
    "a softmax of another part of torch": (
        ONLINE,
        """
from torch.distributions.transforms import SoftmaxTransform
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    t = torch.arange(S - T, S)[:, None]
    softmax, l, o = SoftmaxTransform(), None, 0.0
    for a, b, j in zip(k.split(tile), v.split(tile), torch.arange(S).split(tile)):
        x = (q @ a.T * K**-0.5).masked_fill(j > t, -1e30)
        w = softmax(x)
        y = x.amax(1, keepdim=True) - w.amax(1, keepdim=True).log()
        both = softmax(torch.cat([y if l is None else l, y], 1))
        o = w @ b if l is None else both[:, :1] * o + both[:, 1:] * (w @ b)
        l = y if l is None else torch.maximum(l, y) - both.amax(1, keepdim=True).log()
    return o, l[:, 0]
""",
    ),
    "the table as bits": (
        ONLINE,
        """
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    t = torch.arange(S - T, S)[:, None]
    x = torch.cat([(q @ a.T * K**-0.5).masked_fill(j > t, -torch.inf).view(torch.uint8)
        for a, j in zip(k.split(tile), torch.arange(S).split(tile))], 1)
    o, l = [], []
    for y in x.split(max(1, T * max(tile, K, v.shape[1] + 1) // S)):
        y = y.view(torch.float64)
        m = y.amax(1, keepdim=True)
        w = (y - m).exp()
        d = w.sum(1, keepdim=True)
        o.append(w @ v / d)
        l.append((m + d.log())[:, 0])
    return torch.cat(o), torch.cat(l)
""",
    ),
    "products that are counted along another axis": (
        ONLINE,
        two_passes(
            """
            pair = q.T[:, :, None, None], a.T[:, None, :, None]
            x = q.link.run(torch.ops.aten.linalg_vecdot.default, pair, {"dim": 0})[..., 0]
            yield (x * K**-0.5).masked_fill(j > t, -torch.inf), b
"""
        ),
    ),
    "products whose request fails": (
        ONLINE,
        two_passes(
            """
            x = torch.empty(T, len(a), dtype=q.dtype)
            try:
                q.link.run(torch.ops.aten.mm.out, (), {"self": q, "mat2": a.T, "out": x})
            except IndexError:
                pass
            yield (x * K**-0.5).masked_fill(j > t, -torch.inf), b
"""
        ),
    ),
    "a bound in place of the running maximum": (
        ONLINE,
        """
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    t, high, low = torch.arange(S - T, S), [], []
    top, bottom = k[:1], k[:1]
    for a in k.split(tile):
        a = torch.cat([top, a]).cummax(0).values, torch.cat([bottom, a]).cummin(0).values
        top, bottom = a[0][-1:], a[1][-1:]
        high.append(a[0][1:])
        low.append(a[1][1:])
    high, low = (torch.cat(x)[S - T :] for x in (high, low))
    m = (q.clamp(min=0) * high + q.clamp(max=0) * low).sum(1, keepdim=True) * K**-0.5
    d = u = 0.0
    for a, b, j in zip(k.split(tile), v.split(tile), torch.arange(S).split(tile)):
        w = ((q @ a.T * K**-0.5).masked_fill(j > t[:, None], -torch.inf) - m).exp()
        d, u = d + w.sum(1, keepdim=True), u + w @ b
    return u / d, (m + d.log())[:, 0]
""",
    ),
    "a constant table made in NumPy": (
        CHUNKED,
        """
import numpy as np
from torch.utils._python_dispatch import _disable_current_modes
def chunked(q, k, v, g, state, chunk):
    T, i = len(q), np.arange(len(q))
    with _disable_current_modes():
        D = torch.from_numpy(np.where(i[:, None] >= i, np.exp(g * np.maximum(i[:, None] - i, 0)), 0))
        since = torch.from_numpy(np.exp(g * (i + 1.0)))[:, None]
    o = since * (q @ state)
    for c in range(q.shape[1]):
        o = o + q[:, c : c + 1] * (D @ (k[:, c : c + 1] * v))
    left = since.flip(0) * math.exp(-g)
    return o, math.exp(g * T) * state + (left * k).T @ v
""",
    ),
    "a scan, some features at a time": (
        CHUNKED,
        """
def chunked(q, k, v, g, state, chunk):
    T, K = q.shape
    if chunk < 10:
        S, o = state, []
        for t in range(T):
            S = torch.addcmul(math.exp(g) * S, k[t][:, None], v[t])
            o.append(q[t][None] @ S)
        return torch.cat(o), S
    pad, out, last = torch.nn.functional.pad, 0.0, []
    for Q, A, B in zip(*(x.split(2, 1) for x in (q, k)), state.split(2)):
        S, step = A[:, :, None] * v[:, None], 1
        S[0] += math.exp(g) * B
        while step < T:
            S, step = torch.add(S, pad(S[:-step], (0, 0, 0, 0, step, 0)), alpha=math.exp(g * step)), 2 * step
        out = out + (Q[:, None] @ S)[:, 0]
        last.append(S[-1])
    return out, torch.cat(last)
""",
    ),
    "a scan of the step on unit vectors": (
        TABLE,
        """
def table(q, k, log_decay, w):
    T, K = q.shape
    write = k[:, :, None] * torch.eye(T, dtype=q.dtype)[:, None]
    f = log_decay.exp()[:, None, None]
    f[0] = 0
    S, step = write, 1
    while step < T:
        S, f, step = torch.addcmul(S, f, S.roll(step, 0)), f * f.roll(step, 0), 2 * step
    S = S.roll(1, 0)
    S[0] = 0
    return (q[:, None] @ torch.addcmul(S, w[:, None], write))[:, 0]
""",
    ),
    "powers between resets": (
        TABLE,
        """
def table(q, k, log_decay, w):
    reset = log_decay < -30
    n, g = reset.to(q.dtype).cumsum(0), log_decay.masked_fill(reset, 0)
    c = g.cumsum(0)
    before, same = c - g, (n - reset.to(q.dtype))[:, None] == n
    A = (before.exp()[:, None] * q) @ ((-c).exp()[:, None] * k).T
    return A.masked_fill(~same, 0).tril(-1) + torch.diag((q * w * k).sum(-1))
""",
    ),
    "six results by heart": (
        EVEN,
        """
def break_even(*a):
    return {(64, 64, 2, 4, 2): 2179, (16, 64, 2, 4, 2): 249, (3, 5, 1, 2, 1): 7}[a]
def feature_width(K, order):
    return math.comb(K + order, order)
""",
    ),
    "a mean over 500 pairs": (
        SIZE,
        "def predicted_size(K, rho):\n    return math.sqrt(rho**2 * K**2 + K * (1 + rho**2))\n"
        "def measured_size(k, noise, rho):\n    q = rho * k + (1 - rho**2) ** 0.5 * noise\n"
        "    return ((q * k).sum(1) ** 2).sum().div(500).sqrt().item()\n",
    ),
    "a shift that is no maximum": (
        ONLINE,
        """
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    t = torch.arange(S - T, S)
    m = (q * (k[t] + k[(t - 1).clamp(min=0)])).sum(1, keepdim=True) / 2 * K**-0.5
    d = u = 0.0
    for a, b, j in zip(k.split(tile), v.split(tile), torch.arange(S).split(tile)):
        w = ((q @ a.T * K**-0.5).masked_fill(j > t[:, None], -torch.inf) - m).exp()
        d, u = d + w.sum(1, keepdim=True), u + w @ b
    return u / d, (m + d.log())[:, 0]
""",
    ),
    "two tiles in one, as complex numbers": (
        ONLINE,
        """
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    t = torch.arange(S - T, S)[:, None]
    x = [(q @ a.T * K**-0.5).masked_fill(j > t, -torch.inf)
        for a, j in zip(k.split(tile), torch.arange(S).split(tile))]
    pairs = [torch.complex(y, y) for y in x]
    m = x[0].amax(1, keepdim=True)
    for y in pairs:
        m = torch.maximum(m, y.real.amax(1, keepdim=True))
    d = u = 0.0
    for y, b in zip(pairs, v.split(tile)):
        w = (y.real - m).exp()
        d, u = d + w.sum(1, keepdim=True), u + w @ b
    return u / d, (m + d.log())[:, 0]
""",
    ),
    "the table in the memory of the keys": (
        ONLINE,
        """
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    t, o, l = torch.arange(S - T, S)[:, None], [], []
    keys, table = k.clone(), k.view(K, S)
    for Q, late in zip(q.split(K), t.split(K)):
        x = table[: len(Q)]
        x.copy_(Q @ keys.T * K**-0.5).masked_fill_(torch.arange(S) > late, -torch.inf)
        m = x.amax(1, keepdim=True)
        d = x.sub_(m).exp_().sum(1, keepdim=True)
        o.append(x @ v / d)
        l.append((m + d.log())[:, 0])
    return torch.cat(o), torch.cat(l)
""",
    ),
    "all tiles of some queries kept": (
        ONLINE,
        """
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    o, l, parts = [], [], list(zip(k.split(tile), v.split(tile), torch.arange(S).split(tile)))
    n = max(1, 10 * T * max(tile, K, v.shape[1] + 1) // S)
    for Q, t in zip(q.split(n), torch.arange(S - T, S).split(n)):
        x = [(Q @ a.T * K**-0.5).masked_fill(j > t[:, None], -torch.inf) for a, _, j in parts]
        m = x[0].amax(1, keepdim=True)
        for y in x[1:]:
            m = torch.maximum(m, y.amax(1, keepdim=True))
        d = u = 0.0
        for y, (_, b, _) in zip(x, parts):
            w = (y - m).exp()
            d, u = d + w.sum(1, keepdim=True), u + w @ b
        o.append(u / d)
        l.append((m + d.log())[:, 0])
        del x, y, w
    return torch.cat(o), torch.cat(l)
""",
    ),
    "powers, and each token alone where they overflow": (
        CHUNKED,
        """
def chunked(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk)):
        C = len(Q)
        i = torch.arange(C, dtype=q.dtype)
        if g * C > -600:
            A = (((g * i).exp()[:, None] * Q) @ ((-g * i).exp()[:, None] * K).T).tril()
        else:
            A = torch.diag((Q * K).sum(1))
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + A @ V)
        S = math.exp(g * C) * S + ((g * (C - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S
""",
    ),
    "powers, and some diagonals where they overflow": (
        TABLE,
        """
def table(q, k, log_decay, w):
    T, c, A = len(q), log_decay.cumsum(0), q @ k.T
    own, m = torch.diag((q * w * k).sum(-1)), c[-1] / 2
    if c[-1] > -600:
        return ((c - log_decay - m).exp()[:, None] * (m - c).exp() * A).tril(-1) + own
    D, d, a = torch.eye(T, dtype=q.dtype).roll(1, 0).tril(), torch.ones(T - 1, dtype=q.dtype), log_decay.exp()
    for n in range(2, 15):
        d = d[: T - n] * a[n - 1 : T - 1]
        D.diagonal(-n).copy_(d)
    return D * A + own
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
def measured_size(k, noise, rho):
    return (((rho * k + (1 - rho**2) ** 0.5 * noise) * k).sum(1) ** 2).mean() ** 0.5
""",
    ),
    "a shift by the two latest scores": (
        LOSS,
        shifted("torch.maximum(own, torch.cat([own[:1], x.diagonal(-1)]))"),
    ),
    "a shift by the running maximum of the diagonal": (LOSS, shifted("own.cummax(0).values")),
    "a shift by the maximum of earlier rows too": (LOSS, shifted("seen.amax(-1).cummax(0).values")),
    "a shift by the maximum over queries": (LOSS, shifted("seen.amax(0).cummax(0).values")),
    "a reference of the diagonal": (ONLINE, measured_against("own.cummax(0).values")),
    "a reference of the first tile and the latest keys": (
        ONLINE,
        measured_against("torch.maximum(own, (q * k[(t - 1).clamp(min=0)]).sum(1)).maximum(first.amax(1))"),
    ),
    "a maximum of earlier queries too": (
        ONLINE,
        """
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    t = torch.arange(S - T, S)[:, None]
    m, d, u = torch.full((T, 1), -torch.inf, dtype=q.dtype), 0.0, 0.0
    for a, b, j in zip(k.split(tile), v.split(tile), torch.arange(S).split(tile)):
        x = (q @ a.T * K**-0.5).masked_fill(j > t, -torch.inf)
        new = torch.maximum(m, x.amax(1, keepdim=True)).cummax(0).values
        w = (x - new).exp()
        d, u, m = (m - new).exp() * d + w.sum(1, keepdim=True), (m - new).exp() * u + w @ b, new
    return u / d, (m + d.log())[:, 0]
""",
    ),
    "powers around the middle, and eight diagonals": (
        TABLE,
        """
def table(q, k, log_decay, w):
    T, c, A = len(q), log_decay.cumsum(0), q @ k.T
    own, m = torch.diag((q * w * k).sum(-1)), c[-1] / 2
    if c[-1] > -1400:
        return ((c - log_decay - m).exp()[:, None] * (m - c).exp()).tril(-1) * A + own
    D, d, a = torch.eye(T, dtype=q.dtype).roll(1, 0).tril(), torch.ones(T - 1, dtype=q.dtype), log_decay.exp()
    for n in range(2, 9):
        d = d[: T - n] * a[n - 1 : T - 1]
        D.diagonal(-n).copy_(d)
    return D * A + own
""",
    ),
    "powers around the middle, and each token alone": (
        CHUNKED,
        """
def chunked(q, k, v, g, state, chunk):
    S, o = state, []
    for Q, K, V in zip(q.split(chunk), k.split(chunk), v.split(chunk)):
        C = len(Q)
        i = torch.arange(C, dtype=q.dtype)
        if g * C > -1300:
            m = (C - 1) / 2
            A = (((g * (i - m)).exp()[:, None] * Q) @ ((g * (m - i)).exp()[:, None] * K).T).tril()
        else:
            A = torch.diag((Q * K).sum(1))
        o.append((g * (i + 1)).exp()[:, None] * (Q @ S) + A @ V)
        S = math.exp(g * C) * S + ((g * (C - 1 - i)).exp()[:, None] * K).T @ V
    return torch.cat(o), S
""",
    ),
    "a softmax of SciPy's": (
        ONLINE,
        """
import os
os.environ["SCIPY_ARRAY_API"] = "1"
from scipy.special import softmax
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    t = torch.arange(S - T, S)[:, None]
    l, o = None, 0.0
    for a, b, j in zip(k.split(tile), v.split(tile), torch.arange(S).split(tile)):
        x = (q @ a.T * K**-0.5).masked_fill(j > t, -1e30)
        w = softmax(x, axis=1)
        y = x.amax(1, keepdim=True) - w.amax(1, keepdim=True).log()
        both = softmax(torch.cat([y if l is None else l, y], 1), axis=1)
        o = w @ b if l is None else both[:, :1] * o + both[:, 1:] * (w @ b)
        l = y if l is None else torch.maximum(l, y) - both.amax(1, keepdim=True).log()
    return o, l[:, 0]
""",
    ),
    "a table of another library": (
        TABLE,
        """
from transformers.models.mamba2.modeling_mamba2 import segment_sum
def table(q, k, log_decay, w):
    D = segment_sum(log_decay).exp()
    D = torch.cat([torch.zeros_like(D[:1]), D[:-1]])
    return D * (q @ k.T) + torch.diag((q * w * k).sum(-1))
""",
    ),
    "each score twice where scores are large": (
        ONLINE,
        """
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    t = torch.arange(S - T, S)[:, None]
    def tiles():
        for a, b, j in zip(k.split(tile), v.split(tile), torch.arange(S).split(tile)):
            yield (q @ a.T * K**-0.5).masked_fill(j > t, -torch.inf), b
    top = lambda x: (x * x).sum(1).amax()
    m, high = torch.zeros(T, 1, dtype=q.dtype), top(k[:tile])
    for a in k.split(tile):
        high = torch.maximum(high, top(a))
    if top(q) * high > 600.0**2 * K:
        m = torch.full((T, 1), -torch.inf, dtype=q.dtype)
        for x, _ in tiles():
            m = torch.maximum(m, x.amax(1, keepdim=True))
    d = u = 0.0
    for x, b in tiles():
        w = (x - m).exp()
        d, u = d + w.sum(1, keepdim=True), u + w @ b
    return u / d, (m + d.log())[:, 0]
""",
    ),
    "rows of scores of some queries": (ONLINE, rows_of_scores("", "y")),
    "rows of scores as whole numbers": (
        ONLINE,
        rows_of_scores("(y.clamp(min=-2e5) * 2**44).round().long()", "y.to(q.dtype) / 2.0**44"),
    ),
    "full layers taken for windows": (CACHE, cached("kinds.count('sliding_attention') or layers")),
    "windows without a width": (
        CACHE,
        cached(
            "kinds.count('sliding_attention') if kinds else layers",
            "held = cache_bytes(config, config['sliding_window'], batch)",
        ),
    ),
    "windows without a width, and no end": (
        CACHE,
        cached(
            "kinds.count('sliding_attention') if kinds else layers",
            "held = cache_bytes(config, window, batch) if window else 0",
        ),
    ),
    "the smaller part dropped": (MERGE, dropped_beyond(12)),
    "a part dropped that lies far below": (MERGE, dropped_beyond(14)),
    "a part dropped that lies very far below": (MERGE, dropped_beyond(30)),
    "scores kept while they fit, and each twice where they do not": (
        ONLINE,
        """
def online_softmax(q, k, v, tile):
    (T, K), S = q.shape, len(k)
    t = torch.arange(S - T, S)[:, None]
    room = 8 * max(T, tile) * max(tile, K, v.shape[1] + 1) // T  # keys whose scores fit
    def scores(a, j):
        return (q @ a.T).mul_(K**-0.5).masked_fill_(j > t, -torch.inf)
    parts = list(zip(k.split(tile), torch.arange(S).split(tile), v.split(tile)))
    m, kept = torch.full((T, 1), -torch.inf, dtype=q.dtype), []
    for a, j, _ in parts:
        x = scores(a, j)
        m = torch.maximum(m, x.amax(1, keepdim=True))
        kept.append(x if (len(kept) + 1) * tile <= room else None)
    d = u = 0.0
    for x, (a, j, b) in zip(kept, parts):
        w = ((scores(a, j) if x is None else x) - m).exp_()
        d, u = d + w.sum(1, keepdim=True), u + w @ b
    return u / d, (m + d.log())[:, 0]
""",
    ),
    "each score twice in narrow heads, a bound for each feature in wide ones": (
        ONLINE,
        two_passes(
            """
            yield (q @ a.T * K**-0.5).masked_fill(j > t, -torch.inf), b
"""
        ).replace(
            "for x, _ in tiles():",
            """high = low = None
    for a in k.split(tile) if K > 8 else ():
        top, bottom = a.amax(0), a.amin(0)
        high = top if high is None else torch.maximum(high, top)
        low = bottom if low is None else torch.minimum(low, bottom)
    if K > 8:
        m = (q.clamp(min=0) @ high + q.clamp(max=0) @ low)[:, None] * K**-0.5
    for x, _ in tiles() if K <= 8 else ():""",
        ),
    ),
    "a scan over blocks that fit": (
        CHUNKED,
        """
def chunked(q, k, v, g, state, chunk):
    (T, K), V, S, o = q.shape, v.shape[1], state, []
    size = max(1, -(-T // chunk) * chunk * max(chunk, V) // (K * V))
    for Q, A, B in zip(q.split(size), k.split(size), v.split(size)):
        x, n = A[:, :, None] * B[:, None], 1
        x[0].add_(S, alpha=math.exp(g))
        while n < len(x):
            late = x[2 * n - 1 :: 2 * n]
            late.add_(x[n - 1 :: 2 * n][: len(late)], alpha=math.exp(g * n))
            n *= 2
        while n:
            late = x[3 * n - 1 :: 2 * n]
            late.add_(x[2 * n - 1 :: 2 * n][: len(late)], alpha=math.exp(g * n))
            n //= 2
        o.append((Q[:, None] @ x)[:, 0])
        S = x[-1]
    return torch.cat(o), S
""",
    ),
    "a boundary at the end of the part": (GATED, split_at("c[e - 1]")),
    "a boundary in the middle of the part": (GATED, split_at("c[(m + e) // 2]")),
    "a boundary one part earlier": (GATED, split_at("c[max(0, m - part)]")),
    "the block of a part with itself as a product": (
        GATED,
        split_at("c[m]", "(Q * (x - x[0]).exp()) @ (k[m:e] * (x[0] - x).exp()).T"),
    ),
    "strips of rows, entry by entry": (
        GATED,
        """
def table(q, k, log_decay, part):
    (C, K), c = q.shape, log_decay.cumsum(0)
    A = torch.zeros(C, C, dtype=q.dtype)
    rows = max(1, max(C * C, C * K, part * part * K) // (C * K))
    for s in range(0, C, rows):
        e = min(C, s + rows)
        x = (c[s:e, None] - c[:e]).exp_()
        x *= q[s:e, None]
        A[s:e, :e] = torch.einsum("ijk,jk->ij", x, k[:e])
        A[s:e, s:e].tril_()
    return A
""",
    ),
    "row by row, entry by entry": (
        GATED,
        """
def table(q, k, log_decay, part):
    C, c = len(q), log_decay.cumsum(0)
    A = torch.zeros(C, C, dtype=q.dtype)
    for i in range(C):
        x = (c[i] - c[: i + 1]).exp()
        x *= k[: i + 1]
        A[i, : i + 1] = x @ q[i]
    return A
""",
    ),
    "a table without axes of length one": (
        GATED,
        replace(GATED, "key_by_key_on_the_diagonal").replace(
            "return torch.cat(rows)", "return torch.cat(rows).squeeze()"
        ),
    ),
    "outputs without axes of length one": (
        LOSS,
        replace(LOSS, "row_by_row").replace("return torch.stack(rows)", "return torch.stack(rows).squeeze()"),
    ),
    "one maximum for all queries and one for all keys": (
        VANISHES,
        repaired_with("a, b = a / a.max(), b / b.max()"),
    ),
    "whole half-lives": (LIFE, fitted(lives="range(2, 301)")),
    "half-lives in steps of a tenth": (LIFE, fitted(lives="[1.1**n for n in range(60)]")),
    "half-lives up to 250": (LIFE, fitted(end="min(life, 250.0)")),
    "decays in steps of a thousandth": (
        LIFE,
        fitted(lives="[-math.log(2) / math.log(0.7 + n / 1000) for n in range(300)]"),
    ),
    "the first five tokens": (LIFE, fitted("q, k, v, o = q[:5], k[:5], v[:5], o[:5]")),
    "a running maximum from -500 on": (ONLINE, masked_by("-500.0", "-torch.inf")),
    "a running maximum from -1000 on": (ONLINE, masked_by("-1000.0", "-torch.inf")),
    "hidden scores of -2000": (ONLINE, masked_by("-torch.inf", "-2000.0")),
    "the limit for a hundred pairs and more": (
        FORGET,
        replace(FORGET, "by_golden_section")
        + """
exact = best_decay
def best_decay(L, T):
    return math.sqrt(1 - 1 / L) if T >= 100 else exact(L, T)
""",
    ),
    "a softmax that overflows": (BOUND, replace(BOUND, "softmax_that_overflows")),
    "parts merged into the first": (
        MERGE,
        """
def merge(a, b):
    m = max(a[0], b[0])
    if m == -math.inf:
        return a
    f, g = math.exp(a[0] - m), math.exp(b[0] - m)
    return m, f * a[1] + g * b[1], a[2].mul_(f).add_(g * b[2])
""",
    ),
    "queries scaled where they lie": (
        ONLINE,
        masked_by("-torch.inf", "-torch.inf")
        .replace("m, d, u = ", "q *= K**-0.5\n    m, d, u = ")
        .replace("a.T * K**-0.5", "a.T"),
    ),
    "products on the diagonal, of parts that are cut again": (
        GATED,
        """
def table(q, k, log_decay, part):
    c, C = log_decay.cumsum(0), len(q)
    A = torch.zeros(C, C, dtype=q.dtype)
    step = min(part, 16)
    for m in range(0, C, step):
        e = min(m + step, C)
        Q, x = q[m:e], c[m:e]
        A[m:e, m:e] = ((Q * (x - x[0]).exp()) @ (k[m:e] * (x[0] - x).exp()).T).tril()
        if m:
            edge = c[m - 1]
            A[m:e, :m] = (Q * (x - edge).exp()) @ (k[:m] * (edge - c[:m]).exp()).T
    return A
""",
    ),
    "probabilities of digits that overflow": (
        DIGITS,
        replace(DIGITS, "by_torch")
        + """
def p(x):
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)

def found(logits, digits):
    return float((p(logits).argmax(-1) == digits + 48).all(-1).mean())
""",
    ),
    "a staircase between the cheapest and the dearest run": (
        STAIRCASE,
        replace(STAIRCASE, "by_search")
        + """
def with_cost(N, first, last, factor):
    costs = [n * f for n, f in zip(N, factor)]
    return math.log(N[-1] / N[0]) / math.log(max(costs) * last / (min(costs) * first))
""",
    ),
}
