"""The language model: one call trains, prefills and decodes; what its docstring says is read back."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from linattn_ref.mixers import MIXERS, find_weight_matrices
from linattn_ref.model import GatedMLP, LanguageModel, ModelConfig, generate
from tests.support.closeness import assert_close

BASE: dict[str, Any] = {"d_model": 16, "n_layers": 2, "n_heads": 2, "vocab_size": 32}
OPTIONS: dict[str, list[dict[str, Any]]] = {"linear": [{}, {"normaliser": "norm", "positions": "rope"}]}
CASES = [(name, options) for name in MIXERS for options in OPTIONS.get(name, [{}])]
every_case = pytest.mark.parametrize(
    ("name", "options"), CASES, ids=["-".join([name, *options.values()]) for name, options in CASES]
)
every_mixer = pytest.mark.parametrize("name", MIXERS)
T = 70  # more than one chunk of 64, and no multiple
BOUNDS = {torch.float64: 1e-10, torch.float32: 1e-4}


def build(
    name: str, options: dict[str, Any] | None = None, dtype: torch.dtype = torch.float64
) -> LanguageModel:
    """Return a model with weights ten times those at the start, so that attention is far from uniform."""
    torch.manual_seed(1)
    model = LanguageModel(ModelConfig(name, **BASE, options=options)).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(10 if parameter.ndim >= 2 else 1)
    return model


def tokens_of(batch_size: int = 2, length: int = T) -> Tensor:
    """Return tokens [batch_size, length], the same at each call."""
    return torch.randint(32, (batch_size, length), generator=torch.Generator().manual_seed(2))


def in_pieces(model: LanguageModel, tokens: Tensor, lengths: list[int]) -> Tensor:
    """Return the logits of all tokens, read in pieces with the state carried."""
    logits, state = [], None
    for piece in tokens.split(lengths, 1):
        out, state = model(piece, state)
        logits.append(out)
    assert state is not None
    front = state[0] if isinstance(state[0], tuple) else (state[0],)
    assert front[0] == tokens.shape[1]
    return torch.cat(logits, 1)


# --- one call for all uses ---------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize(
    "lengths", [[1] * T, [60] + [1] * 10, [5, 64, 1]], ids=["steps", "prefill", "segments"]
)
@torch.no_grad()
def test_decoding_gives_the_logits_of_the_full_pass(
    name: str, options: dict[str, Any], dtype: torch.dtype, lengths: list[int]
) -> None:
    model, tokens = build(name, options, dtype), tokens_of()
    assert_close("logits", in_pieces(model, tokens, lengths), model(tokens)[0], BOUNDS[dtype])


@every_case
@torch.no_grad()
def test_a_sequence_resumes_at_any_split(name: str, options: dict[str, Any]) -> None:
    model, tokens = build(name, options), tokens_of(1)
    logits, _ = model(tokens)
    for t in range(1, T):
        assert_close(f"split at {t}", in_pieces(model, tokens, [t, T - t]), logits, 1e-10)


@every_mixer
@torch.no_grad()
def test_one_state_can_be_continued_in_two_ways(name: str) -> None:
    model, tokens = build(name), tokens_of()
    _, state = model(tokens[:, :9])
    for last in (tokens[:, 9:10], (tokens[:, 9:10] + 1) % 32):
        want, _ = model(torch.cat([tokens[:, :9], last], 1))
        assert_close("logits", model(last, state)[0][:, -1], want[:, -1], 1e-10)


@every_mixer
@torch.no_grad()
def test_later_tokens_leave_earlier_logits_unchanged(name: str) -> None:
    model, tokens = build(name), tokens_of()
    changed = torch.cat([tokens[:, :40], (tokens[:, 40:] + 1) % 32], 1)
    assert_close("logits", model(changed)[0][:, :40], model(tokens)[0][:, :40], 1e-13)


# --- sampling ----------------------------------------------------------------------------------------------


def generated(model: LanguageModel, n: int, seed: int, temperature: float = 1.0) -> Tensor:
    """Return n tokens after a prompt of 8, by ``generate``."""
    generator = torch.Generator().manual_seed(seed)
    return generate(model, tokens_of(2, 8), n, generator=generator, temperature=temperature)


def sampled_from_full_passes(model: LanguageModel, n: int, seed: int, temperature: float) -> Tensor:
    """Return n tokens after the same prompt, each from a pass over all tokens before it, without a state."""
    tokens, generator = tokens_of(2, 8), torch.Generator().manual_seed(seed)
    for _ in range(n):
        logits = model(tokens)[0][:, -1].float() / temperature
        tokens = torch.cat([tokens, torch.multinomial(logits.softmax(-1), 1, generator=generator)], 1)
    return tokens[:, 8:]


@every_mixer
@pytest.mark.parametrize("temperature", [0.5, 2.0])
@torch.no_grad()
def test_generate_samples_as_if_every_token_came_from_a_full_pass(name: str, temperature: float) -> None:
    model = build(name)
    want = sampled_from_full_passes(model, 60, 3, temperature)
    assert torch.equal(generated(model, 60, 3, temperature), want)


@every_mixer
@torch.no_grad()
def test_generate_takes_the_likeliest_token_when_cold(name: str) -> None:
    model, tokens = build(name), tokens_of(2, 8)
    for _ in range(12):
        tokens = torch.cat([tokens, model(tokens)[0][:, -1:].argmax(-1)], 1)
    assert torch.equal(generated(model, 12, 3, temperature=1e-6), tokens[:, 8:])
    assert torch.equal(generate(model, tokens_of(2, 8), 12, temperature=0), tokens[:, 8:])


# Logits whose probabilities are 0.4, 0.3, 0.2 and 0.1, in an order that is none.
SKEWED = torch.tensor([[0.1, 0.4, 0.2, 0.3]]).log().double()
KEPT: list[tuple[dict[str, Any], list[float]]] = [  # and what is left of them, as it is drawn
    ({}, [0.1, 0.4, 0.2, 0.3]),
    ({"top_k": 2}, [0, 4 / 7, 0, 3 / 7]),
    ({"top_k": 9}, [0.1, 0.4, 0.2, 0.3]),
    ({"top_p": 0.6}, [0, 4 / 7, 0, 3 / 7]),
    ({"top_p": 0.75}, [0, 4 / 9, 2 / 9, 3 / 9]),
    ({"top_p": 1e-9}, [0, 1, 0, 0]),
    ({"top_k": 2, "top_p": 0.5}, [0, 1, 0, 0]),  # 0.4 of 0.7 is more than half
    ({"top_k": 3, "top_p": 0.5, "temperature": 0.5}, [0, 1, 0, 0]),  # 16 : 9 : 4
    ({"top_k": 2, "temperature": 0.5}, [0, 16 / 25, 0, 9 / 25]),
]


@pytest.mark.parametrize(("options", "expected"), KEPT, ids=[str(options) for options, _ in KEPT])
def test_generate_draws_from_the_tokens_that_are_asked_for(
    options: dict[str, Any], expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Tensor] = []

    def take_the_likeliest(p: Tensor, n: int, generator: torch.Generator) -> Tensor:
        drawn.append(p)
        return p.argmax(-1, keepdim=True)

    monkeypatch.setattr(torch, "multinomial", take_the_likeliest)
    model = LanguageModel(ModelConfig(**BASE | {"vocab_size": 4}))
    model.register_forward_hook(lambda module, given, result: (SKEWED[:, None], result[1]))
    generate(model, torch.zeros(1, 1, dtype=torch.int64), 1, generator=torch.Generator(), **options)
    p = drawn[0] / drawn[0].sum()
    assert_close("probabilities", p, torch.tensor([expected]), 1e-6)


def test_a_sequence_that_ended_stays_ended() -> None:
    """Whatever the others do: the tokens up to the first end are those without one."""
    model, prompts = build("gla"), tokens_of(6, 8)
    free = generate(model, prompts, 30, generator=torch.Generator().manual_seed(3))
    end = int(free[0, 4])
    stopped = generate(model, prompts, 30, generator=torch.Generator().manual_seed(3), end=end)
    ended = (free == end).cumsum(1) > 0
    assert ended[:, -1].any()
    assert not ended[:, -1].all()
    assert torch.equal(stopped, free.masked_fill(ended, end))


def test_generation_stops_when_all_have_ended() -> None:
    model, calls = build("gla"), 0

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    first = int(generate(model, tokens_of(1, 8), 1, temperature=0))
    model.register_forward_hook(count)
    assert generate(model, tokens_of(1, 8), 30, temperature=0, end=first).tolist() == [[first] * 30]
    assert calls == 1


@every_mixer
def test_generate_depends_on_its_generator_and_on_nothing_else(name: str) -> None:
    model = build(name)
    before = torch.get_rng_state()
    first = generated(model, 20, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    assert torch.equal(generated(model, 20, seed=3), first)
    assert not torch.equal(generated(model, 20, seed=4), first)


def test_the_lowest_temperature_takes_the_likeliest_token() -> None:
    model = build("linear")
    likeliest = model(tokens_of(2, 8))[0][:, -1].argmax(-1)
    generator = torch.Generator().manual_seed(3)
    assert torch.equal(
        generate(model, tokens_of(2, 8), 1, generator=generator, temperature=1e-30)[:, 0], likeliest
    )


def test_generate_of_no_tokens_is_empty() -> None:
    assert generated(build("linear"), 0, seed=3).shape == (2, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_tokens": -1}, "n_tokens: got -1"),
        ({"temperature": math.nan}, "temperature: got nan"),
        ({"temperature": -1.0}, "temperature: got -1"),
        ({"temperature": 1e-39}, "temperature: got 1e-39, expected 0 or a finite number, at least 1e-30"),
        ({"prompt": tokens_of(2, 0)}, "tokens: got"),
        ({"prompt": tokens_of(2, 0), "lengths": [1, 1]}, "tokens: got"),
        ({"generator": None}, "generator: got None, expected .* temperature 0"),
        ({"top_k": 0}, "top_k: got 0"),
        ({"top_p": 0.0}, r"top_p: got 0\.0"),
        ({"top_p": 1.1}, r"top_p: got 1\.1"),
        ({"end": 32}, "end: got 32, expected from 0 to 31"),
        ({"lengths": [8]}, r"lengths: got \[8\], expected 2 whole numbers from 1 to 8"),
        ({"lengths": [0, 8]}, r"lengths: got \[0, 8\]"),
        ({"lengths": [9, 8]}, r"lengths: got \[9, 8\]"),
        ({"lengths": [1.0, 2.0]}, r"lengths: got \[1\.0, 2\.0\]"),
    ],
)
def test_generate_refuses(options: dict[str, Any], message: str) -> None:
    arguments = {"prompt": tokens_of(2, 8), "n_tokens": 2, "generator": torch.Generator()} | options
    with pytest.raises(ValueError, match=message):
        generate(build("linear"), **arguments)


# --- initialisation, embeddings, MLP -----------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("n_layers", [1, 3])
def test_every_matrix_starts_with_the_spread_that_the_docstring_says(
    name: str, options: dict[str, Any], n_layers: int
) -> None:
    """Each within five standard errors; the two residual writers of each block are smaller."""
    size = {"d_model": 64, "n_layers": n_layers, "n_heads": 2, "vocab_size": 128, "tie_embeddings": False}
    model = LanguageModel(ModelConfig(name, **size, options=options))
    writers = {f"blocks.{l}.{part}.out.weight" for l in range(n_layers) for part in ("mixer", "mlp")}
    assert writers <= {what for what, _ in model.named_parameters()}
    for what, matrix in find_weight_matrices(model).items():
        expected = 0.02 / math.sqrt(2 * n_layers) if what in writers else 0.02
        assert abs(matrix.std().item() / expected - 1) < 5 / math.sqrt(2 * matrix.numel()), what
        assert abs(matrix.mean().item()) < 5 * expected / math.sqrt(matrix.numel()), what


@every_case
def test_every_norm_starts_with_gain_one(name: str, options: dict[str, Any]) -> None:
    model = LanguageModel(ModelConfig(name, **BASE, options=options))
    norms = [module for module in model.modules() if isinstance(module, torch.nn.RMSNorm)]
    assert len(norms) >= 5
    assert all(bool((norm.weight == 1).all()) and norm.eps == model.config.norm_eps for norm in norms)


@every_mixer
def test_a_fresh_model_predicts_all_tokens_about_equally(name: str) -> None:
    logits, _ = LanguageModel(ModelConfig(name, **BASE))(tokens_of())
    loss = cross_entropy(logits[:, :-1].mT, tokens_of()[:, 1:])
    assert abs(loss.item() - math.log(32)) < 0.1


def test_tied_embeddings_are_one_parameter_and_untied_are_two() -> None:
    tied, untied = (LanguageModel(ModelConfig(**BASE, tie_embeddings=tie)) for tie in (True, False))
    assert tied.head.weight is tied.embedding.weight
    assert not torch.equal(untied.head.weight, untied.embedding.weight)
    assert len(list(untied.parameters())) == len(list(tied.parameters())) + 1


@every_mixer
def test_the_weights_come_from_the_global_seed_alone(name: str) -> None:
    first, again = build(name).state_dict(), build(name).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)


@pytest.mark.parametrize(("activation", "act"), [("silu", torch.nn.functional.silu), ("none", lambda z: z)])
def test_the_mlp_multiplies_a_gate(activation: Any, act: Any) -> None:
    mlp, x = GatedMLP(ModelConfig(activation=activation)), torch.randn(1, 3, 128)
    want = (act(x @ mlp.gate.weight.T) * (x @ mlp.up.weight.T)) @ mlp.out.weight.T
    assert_close("mlp", mlp(x), want, 1e-5)
    assert mlp.gate.weight.shape == (352, 128)  # 8 * 128 / 3 = 341.3, up to the next multiple of 32


# --- errors, dtypes, devices -------------------------------------------------------------------------------

WRONG_TOKENS = {
    "float": torch.zeros(1, 4),
    "bool": torch.zeros(1, 4, dtype=torch.bool),
    "uint8": torch.zeros(1, 4, dtype=torch.uint8),
    "one dimension": torch.zeros(4, dtype=torch.int64),
    "three dimensions": torch.zeros(1, 4, 1, dtype=torch.int64),
}


@pytest.mark.parametrize("tokens", WRONG_TOKENS.values(), ids=WRONG_TOKENS)
def test_tokens_of_a_wrong_dtype_or_rank_are_refused(tokens: Tensor) -> None:
    with pytest.raises(ValueError, match=rf"tokens: got {tokens.dtype} .*\[B, T\]"):
        build("softmax")(tokens)


@every_case
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_a_model_computes_in_the_dtype_of_its_weights(
    name: str, options: dict[str, Any], dtype: torch.dtype
) -> None:
    model = build(name, options, dtype)
    logits, _ = model(tokens_of())
    logits.float().square().mean().backward()
    assert logits.dtype == dtype
    assert logits.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@every_case
@torch.no_grad()
def test_bfloat16_stays_near_float32(name: str, options: dict[str, Any]) -> None:
    """At the start of training, where errors are not amplified: a dozen roundings of 2^-8 in a row."""
    torch.manual_seed(1)
    model = LanguageModel(ModelConfig(name, **BASE, options=options))
    want, _ = model(tokens_of())
    with torch.autocast("cpu", torch.bfloat16):
        mixed, _ = model(tokens_of())
    got, _ = model.to(torch.bfloat16)(tokens_of())
    bound = 12 * 2**-8 * want.abs().max().item()
    assert_close("autocast", mixed, want, bound)
    assert_close("bfloat16 weights", got, want, bound)


@every_case
def test_a_model_can_be_laid_out_without_memory(name: str, options: dict[str, Any]) -> None:
    with torch.device("meta"):
        model = LanguageModel(ModelConfig(name, **BASE, options=options))
    real = LanguageModel(ModelConfig(name, **BASE, options=options))
    assert all(tensor.is_meta for tensor in [*model.parameters(), *model.buffers()])
    shapes = {key: value.shape for key, value in model.state_dict().items()}
    assert shapes == {key: value.shape for key, value in real.state_dict().items()}


# --- learning ----------------------------------------------------------------------------------------------


@every_case
def test_a_tiny_model_learns_a_sequence_by_heart(name: str, options: dict[str, Any]) -> None:
    """Eight symbols in random order, about three times each: the current one alone does not tell the next."""
    torch.manual_seed(1)
    model = LanguageModel(ModelConfig(name, **BASE | {"d_model": 32, "vocab_size": 8}, options=options))
    sequence = torch.randint(8, (1, 25), generator=torch.Generator().manual_seed(4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = [math.inf]
    while losses[-1] >= 0.02 and len(losses) < 300:
        optimizer.zero_grad()
        loss = cross_entropy(model(sequence[:, :-1])[0].mT, sequence[:, 1:])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.02
