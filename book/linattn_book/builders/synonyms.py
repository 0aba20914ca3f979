"""Say under which other words a reader looks for a section, and put them into the index of the search.

What the book does not treat is not here: whoever looks for it should find nothing. Capitals, hyphens, spaces
and a plural make no difference (``book/_static/search.js``).
"""

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)

# page -> place on it, "" for the page itself -> words; two places may have the same word.
SYNONYMS = {
    "chapters/01_softmax_attention": {
        "": "attention, softmax, self-attention, softmax attention, transformer",
        "the-equation-line-by-line": "multi-head attention, MHA",
        "why-divide-by-sqrt-k": "scaled dot-product attention",
        "the-causal-mask": "causal mask, causal attention, autoregressive mask",
        "what-one-layer-costs": "quadratic attention, quadratic cost, quadratic complexity, FLOPs",
        "the-kv-cache": "KV cache, key-value cache, grouped-query attention, GQA",
        "online-softmax": "online softmax, flash attention, FlashAttention-2, flash-attn, safe softmax, "
        "streaming softmax, tiling, log-sum-exp",
        "going-through-a-book": "going through a book",
        "positions-by-rotation": "RoPE, rotary, rotary embedding, rotary position embedding, "
        "position embedding, positional embedding, positional encoding",
    },
    "chapters/02_linear_attention": {
        "": "linear attention, linear transformer, kernelized attention",
        "from-e-q-cdot-k-to-varphi-q-cdot-varphi-k": "kernel trick, kernel feature map",
        "three-forms-of-one-thing": "recurrent form, parallel form, chunk form, chunkwise form, chunkwise, "
        "chunkwise parallel, parallel scan, prefix scan",
        "the-normaliser": "normaliser, normalizer, normalization, denominator",
        "feature-maps-compared": "feature map, ELU",
        "cosformer-weighting-by-distance": "cosFormer",
        "a-recurrent-network-with-a-matrix-for-a-state": "RNN, recurrent network, recurrent neural network, "
        "recurrence, transformers are RNNs, fast weight, fast weight programmer, matrix state, "
        "matrix-valued state",
        "capacity-how-much-fits": "capacity, memory capacity",
        "decoding-in-constant-memory": "decoding, generation, autoregressive decoding, inference",
    },
    "chapters/03_decay_and_gates": {
        "": "decay, gate, gating, forget gate, forgetting",
        "one-decay-for-each-head": "RetNet, retention, retentive network, TNL, TransNormerLLM, half-life",
        "the-chunk-form-line-by-line": "lightning attention, chunk form, chunkwise form, chunkwise",
        "gates-that-look-at-the-token": "data-dependent gate, data-dependent decay, input gate, LSTM",
        "scalar-vector-matrix": "GLA, gated linear attention, HGRN2, HGRN, lower bound",
        "numerics-clinic": "overflow, underflow, NaN, numerics, numerical stability",
        "does-a-gate-help-to-recall": "MQAR, multi-query associative recall, associative recall, recall",
        "a-released-model": "Hugging Face, transformers, pretrained, RWKV, RWKV-4",
    },
    "chapters/04_state_space_models": {
        "": "state space, state space model, SSM, structured state space model",
        "from-a-differential-equation-to-a-recurrence": "discretization, discretisation, zero-order hold, "
        "ZOH, bilinear, Euler, continuous time",
        "the-same-system-as-a-convolution": "convolution, FFT, long convolution, convolution form",
        "hippo-what-should-n-numbers-remember": "HiPPO, LegS, Legendre, S4, S4D, structured state space",
        "what-time-invariance-cannot-do": "LTI, linear time-invariant, selective copy, selective copying",
        "h3-multiplying-what-a-convolution-cannot-compare": "H3, hungry hungry hippos, recall",
    },
    "chapters/05_selection_and_erasing": {
        "": "selection, selective state space model, SSM",
        "a-step-that-looks-at-the-token": "Mamba, S6, selective SSM, discretization, gated RNN",
        "no-matrix-product-a-scan": "associative scan, parallel scan, prefix scan, selective scan",
        "the-mamba-block": "Mamba, Mamba-1, Hugging Face, transformers, short convolution",
        "mamba-2-one-number-per-head": "Mamba-2, SSD, state space duality, semiseparable",
        "copying-and-induction-learned": "selective copy, induction heads, length generalization",
        "erase-then-write": "DeltaNet, delta rule, fast weights, fast weight programmer, online learning",
        "the-delta-rule-in-chunks": "WY, UT transform, Householder, gated DeltaNet, gated delta rule",
        "beyond-one-negative-eigenvalues": "parity, state tracking, negative eigenvalue",
    },
    "chapters/06_making_it_fast": {
        "": "CUDA, GPU, performance, speed",
        "two-numbers-of-a-machine": "roofline, arithmetic intensity, bandwidth, memory bound, compute bound",
        "a-program-for-a-tile": "Triton, kernel, interpreter, fused softmax",
        "reuse-is-the-size-of-a-tile": "matrix multiplication, matmul, tiling, GEMM",
        "attention-without-its-table": "FlashAttention, flash attention, fused attention",
        "chunk-by-chunk": "lightning attention, fused linear attention, chunkwise",
        "a-decay-per-channel": "GLA, gated linear attention, secondary chunking",
        "what-a-chunk-size-trades": "chunk size, block size, tuning",
        "a-backward-that-keeps-nothing": "backward, gradients, recomputation, checkpointing",
        "the-triangle-of-the-delta-rule": "UT transform, triangular inverse, DeltaNet",
        "a-scan-has-no-product-to-make": "selective scan, Mamba, SSD",
        "where-linear-wins": "crossover, break-even, prefill, decoding, CUDA graph",
    },
    "chapters/07_four_architectures": {
        "": "LLaMA, TNL, TransNormerLLM, HGRN2, cosFormer2, scaling laws",
        "parameters": "parameter count, model size",
        "flops": "FLOPs, compute, 6N, 6ND, cost, accounting",
        "what-the-count-decides": "causal mask, compute budget, isoFLOP",
    },
    "chapters/08_do_linear_models_scale": {
        "": "scaling laws, Chinchilla, Kaplan, exponent, power law",
        "what-a-law-of-scaling-says": "compute-optimal, irreducible loss, loss surface",
        "what-an-envelope-is-and-how-it-misleads": "isoFLOP, envelope, Approach 1, Approach 2",
        "planning-with-a-law": "overtraining, budget, inference cost",
    },
    "chapters/09_recall": {
        "": "recall, induction, in-context learning, retrieval",
        "reading-twice": "copying, induction heads, in-context copying",
        "one-softmax-layer-in-four": "hybrid, hybrid model, hybrid attention, Jamba, MiniMax-01, Qwen3-Next",
        "how-far-do-they-look": "extrapolation, length extrapolation, length generalization, context length",
        "needles": "needle, needle in a haystack, NIAH, passkey",
        "recall-in-earnest": "MQAR, multi-query associative recall, Zoology, associative recall, capacity",
        "the-book-argument": "read twice, JRT, going through a book",
    },
    "book/models": {
        "": "recurrence, linear RNN, gated linear RNN",
        "retnet": "RetNet, retention, retentive network",
        "tnl": "TNL, TransNormer, TransNormerLLM, lightning attention",
        "gla": "GLA, gated linear attention",
        "hgrn2": "HGRN2, HGRN",
        "gated-retnet": "gated RetNet, gated retention, YOCO",
        "mlstm": "mLSTM, xLSTM",
        "rwkv-4": "RWKV, RWKV-4, WKV",
        "rwkv-6": "RWKV, RWKV-6",
        "rwkv-7": "RWKV, RWKV-7, Goose, generalised delta rule, generalized delta rule, DPLR",
        "s4d": "S4, S4D, state space, state space model, SSM, structured state space model",
        "h3": "H3, hungry hungry hippos, state space, state space model, SSM",
        "mamba": "Mamba, Mamba-1, S6, selective scan, selective SSM, selective state space model, "
        "state space, state space model, SSM",
        "mamba-2": "Mamba-2, SSD, state space duality",
        "deltanet": "DeltaNet, delta rule",
        "gated-deltanet": "gated DeltaNet, gated delta rule",
        "kda": "KDA, Kimi, Kimi Linear, Kimi delta attention",
    },
    "book/disagreements": {
        "delta-rule": "delta rule, DeltaNet",
        "state-space-models": "state space, state space model, SSM",
        "last-block-of-lightning-attention": "lightning attention",
        "mamba-as-a-gated-rnn": "RNN",
    },
    "book/rosetta": {"": "FLA, flash-linear-attention"},
    "book/study": {
        "fits": "scaling law, power law",
        "the-paper-s-accounting": "FLOPs, parameter count",
        "multi-query-recall": "MQAR, multi-query associative recall",
    },
    "book/large_runs": {"": "FSDP, DDP, torchrun, Ray, cluster, GPU hours, price, cost of training"},
}


def add_synonyms(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put the words of a page's places into the search index: as names that lead there, and as its text."""
    places = SYNONYMS.get(docname)
    if not places:
        return
    ids = {name for node in doctree.findall(nodes.Element) for name in node["ids"]} | {""}
    for missing in sorted(set(places) - ids):
        logger.warning("synonyms: %s has no place %r", docname, missing)
    words = [(word.strip(), place) for place, listed in places.items() for word in listed.split(",")]
    entries = [("single", word, place, "main", None) for word, place in words]
    doctree += addnodes.index("", " ".join(word for word, _ in words), entries=entries)
