"""The references of the questions, against what is not theirs: the package, torch, counting, sampling."""

import math
from itertools import combinations_with_replacement
from pathlib import Path
from statistics import NormalDist

import pytest
import torch

from linattn_book import results
from linattn_book.builders.masters import read_master
from linattn_exercises.ch01_softmax import check as softmax
from linattn_exercises.ch02_linear import check as linear
from linattn_ref import costs, ops
from linattn_ref.model import LanguageModel, ModelConfig
from tests.support.closeness import assert_close

ROOT = Path(__file__).parents[2]


def heads(generator, T=37, K=4, V=3):
    return [torch.randn(1, T, 1, n, generator=generator, dtype=torch.float64) for n in (K, K, V)]


def test_online_softmax_is_the_package_s(generator):
    q, k, v = heads(generator)
    want = ops.parallel_softmax_attention(q, k, v).output[0, :, 0]
    q, k, v = (x[0, :, 0] for x in (q, k, v))
    output, log_sum = softmax.online_softmax(q, k, v, 5)
    assert_close("output", output, want, 1e-12)
    score = (q @ k.T / 2).masked_fill(torch.ones(37, 37).triu(1).bool(), -torch.inf)
    assert_close("log-sum-exp", log_sum, score.logsumexp(-1), 1e-12)


def test_merged_readers_have_read_it_all(generator):
    x, v = torch.randn(9, generator=generator).double(), torch.randn(9, 2, generator=generator).double()

    def read(part):
        m = x[part].max().item()
        w = (x[part] - m).exp()
        return m, w.sum().item(), w @ v[part]

    parts = [read(slice(0, 2)), read(slice(2, 7)), read(slice(7, 9))]
    left = softmax.merge(softmax.merge(parts[0], parts[1]), parts[2])
    right = softmax.merge(parts[2], softmax.merge(parts[1], parts[0]))
    for m, d, u in (left, right):
        assert_close("output", u / d, x.softmax(0) @ v, 1e-12)
        assert m == x.max().item()


def test_repaired_softmax_is_the_package_s(generator):
    q, k, v = heads(generator)
    want = ops.parallel_softmax_attention(q, k, v).output[0, :, 0]
    assert_close("output", softmax.repaired(*(x[0, :, 0] for x in (q, k, v))), want, 1e-12)


def test_the_predicted_size_of_a_score_is_measured(generator):
    for K, a in ((3, 0.4), (50, 0.1), (7, 1.0)):
        k, noise = torch.randn(2, 300_000, K, generator=generator)
        measured = softmax.measured_size(k, noise, a)
        assert softmax.predicted_size(K, a) == pytest.approx(measured, rel=0.01)


def test_cache_bytes_are_those_of_a_model():
    config = ModelConfig("softmax", d_model=64, n_layers=3, n_heads=4)
    fields = {"num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 64, "torch_dtype": "float32"}
    want = costs.state_bytes(config, 11, dtype=torch.float32)
    assert softmax.cache_bytes(fields, 11, 1) == want
    with torch.no_grad():
        _, state = LanguageModel(config)(torch.zeros(2, 11, dtype=torch.long))
    held = sum(x.numel() * x.element_size() for layer in state[1] for x in layer)
    assert softmax.cache_bytes(fields, 11, 2) == held


def test_most_tokens_is_the_last_that_fits():
    fields = {"num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 64, "torch_dtype": "float32"}
    fields |= {"sliding_window": 10, "layer_types": ["full_attention", "sliding_attention", "full_attention"]}
    room = 123_456
    most = softmax.most_tokens(fields, room, 2)
    assert softmax.cache_bytes(fields, most, 2) <= room < softmax.cache_bytes(fields, most + 1, 2)


def test_the_table_is_the_step_by_step_form(generator):
    q, k, v = (x[0, :, 0] for x in heads(generator))
    u = torch.randn(4, generator=generator).double()
    log_decay = -torch.rand(37, generator=generator).double()
    want = linear.step_by_step(q, k, v, log_decay, u)
    assert_close("A V", linear.table(q, k, log_decay, u) @ v, want, 1e-12)


@pytest.mark.parametrize("chunk", [1, 5, 37, 64])
def test_chunked_is_the_package_s(generator, chunk):
    q, k, v = heads(generator)
    state = torch.randn(1, 1, 4, 3, generator=generator, dtype=torch.float64)
    want = ops.recurrent_linear_attention(
        q, k, v, torch.tensor([-0.4], dtype=torch.float64), scale=1.0, initial_state=state
    )
    output, last = linear.chunked(*(x[0, :, 0] for x in (q, k, v)), -0.4, state[0, 0], chunk)
    assert_close("output", output, want.output[0, :, 0], 1e-12)
    assert_close("state", last, want.state[0, 0], 1e-12)


@pytest.mark.parametrize(("dtype", "bits"), [(torch.float32, 24), (torch.float16, 11), (torch.bfloat16, 8)])
def test_elu_plus_one_is_zero_below_and_only_below(dtype, bits):
    edge = linear.zero_below(bits)
    x = torch.tensor([1.01 * edge, 0.98 * edge], dtype=dtype)
    below, above = (torch.nn.functional.elu(x) + 1).tolist()
    assert below == 0.0
    assert above > 0.0


def test_repaired_linear_attention_is_that_of_float64(generator):
    q, k, v = (x[0, :, 0] for x in heads(generator))
    q, k = 20 * q - 30, 20 * k - 30
    phi = ops.FEATURE_MAPS["elu_plus_one"].apply
    weight = (phi(q) @ phi(k).T).tril()
    want = weight @ v / weight.sum(-1, keepdim=True)
    assert_close("output", linear.repaired(q.float(), k.float(), v.float()), want, 1e-4)


@pytest.mark.parametrize(("K", "H", "accuracy"), [(24, 2, 0.8), (64, 1, 0.95)])
def test_the_predicted_number_of_pairs_is_measured(generator, K, H, accuracy):
    def share(factor):
        n = round(factor * linear.predicted_pairs(K, H, accuracy))
        draws = [torch.randn(*size, generator=generator) for size in 20 * [(H, n, K), (n, 100)]]
        return sum(map(linear.share_right, draws[::2], (v.sign() for v in draws[1::2]))) / 20

    assert share(1.1) < accuracy < share(0.9)


@pytest.mark.parametrize(("K", "H", "accuracy"), [(32, 1, 0.75), (16, 4, 0.85), (48, 2, 0.95)])
def test_one_pair_matters_less_than_the_solution_says_and_than_a_draw_scatters(generator, K, H, accuracy):
    n = linear.predicted_pairs(K, H, accuracy)
    normal = NormalDist()
    moved = accuracy - normal.cdf(math.sqrt(H * K / n))  # with one pair more
    draws = [torch.randn(*size, generator=generator) for size in 40 * [(H, round(n), K), (round(n), 100)]]
    shares = torch.tensor(
        [linear.share_right(x, v.sign()) for x, v in zip(draws[::2], draws[1::2], strict=True)]
    )
    assert 0 < moved < 0.003 < shares.std()


@pytest.mark.parametrize(("K", "order"), [(1, 3), (4, 2), (5, 3), (6, 0)])
def test_features_are_counted(K, order):
    count = sum(1 for p in range(order + 1) for _ in combinations_with_replacement(range(K), p))
    assert linear.feature_width(K, order) == count


def test_break_even_is_the_first_length_at_which_the_cache_is_larger():
    T = linear.break_even(8, 6, 2, 4, 2)
    state = math.comb(10, 2) * 7 * 4
    assert (T - 1) * 14 * 2 <= state < T * 14 * 2


def test_the_solution_of_the_leak_quotes_the_saved_measurement():
    rows = {(row["model"], row["seed"]): row for row in results.load("late_mask")}
    full = {
        model: [f"{rows[model, seed]['full_bits']:.2f}" for seed in (0, 1)]
        for model in ("right", "late mask")
    }
    prefix = {f"{rows['late mask', seed]['prefix_bits']:.1f}" for seed in (0, 1)}
    text = read_master(ROOT / "exercises" / "ch01_softmax" / "master").get_text("solution", "q2")
    assert " and ".join(full["late mask"]) in text
    assert " and ".join(full["right"]) in text
    assert prefix == {"4.2"}
    assert "it needs 4.2" in text
