"""Models that differ in their gate alone do so, and measurements on small tasks run."""

import pytest
import torch

from linattn_benchmarks.benchmark import Benchmark, Size
from linattn_benchmarks.gates import (
    GATE_RECALL,
    GATE_RESET,
    GATES,
    RESET_HALF_LIVES,
    RESET_MODEL,
    GatedMixer,
    build,
)
from linattn_benchmarks.selection import SELECTION
from linattn_benchmarks.tasks import Practice, measure_accuracy, practise
from linattn_ref.training.tasks.recall import Recall

CPU = torch.device("cpu")


def build_small(gate: str) -> torch.nn.Module:
    return build(gate, 16, RESET_HALF_LIVES, 0, CPU, n_layers=1, **RESET_MODEL)


def find_mixer(model) -> GatedMixer:
    return model.blocks[0].mixer


def test_what_models_share_starts_equal():
    models = [dict(build_small(gate).named_parameters()) for gate in GATES]
    for name, want in models[0].items():
        assert all(torch.equal(one[name], want) for one in models if "bias" not in name), name


@pytest.mark.parametrize("gate", GATES[1:])
def test_gates_start_with_the_same_half_lives(gate):
    mixer = find_mixer(build_small(gate))
    x = torch.zeros(1, 1, RESET_MODEL["d_model"])
    log_decay = mixer.compute_log_decay(x)
    assert log_decay is not None
    lives = -torch.log(torch.tensor(2.0)) / log_decay
    assert lives.min().item() == pytest.approx(RESET_HALF_LIVES[0], rel=1e-4)
    assert lives.max().item() == pytest.approx(RESET_HALF_LIVES[1], rel=1e-3)
    if gate == "vector":  # in each head
        assert (lives[0, 0].amax(-1) / lives[0, 0].amin(-1)).min() > 40


@pytest.mark.parametrize("gate", GATES)
def test_a_model_goes_on_from_its_state(gate):
    model = build_small(gate)
    tokens = torch.randint(16, (2, 9), generator=torch.Generator().manual_seed(0))
    whole = model(tokens)[0]
    first, state = model(tokens[:, :5])
    assert torch.allclose(torch.cat([first, model(tokens[:, 5:], state)[0]], 1), whole, atol=1e-5)


def test_rates_rise_and_fall():
    rates = Practice(10, 1, 2.0, 0).compute_rates()
    assert max(rates) == rates[0] == 2.0
    assert rates == sorted(rates, reverse=True)
    assert 0 < rates[-1] < 0.3


def test_a_task_that_needs_no_memory_is_learned():
    def draw(n, generator):
        inputs = torch.randint(16, (n, 8), generator=generator)
        return Recall(inputs, (inputs + 1) % 16)

    model = build_small("scalar")
    before = measure_accuracy(model, draw, 16, CPU)
    practise(model, draw, Practice(60, 16, 1e-2, 0), CPU)
    assert measure_accuracy(model, draw, 16, CPU) > 0.95 > 0.5 > before


@pytest.mark.parametrize("benchmark", [GATE_RESET, GATE_RECALL, SELECTION], ids=lambda one: one.name)
def test_a_dry_run_gives_the_columns(benchmark: Benchmark):
    tasks = benchmark.tasks(Size.DRY_RUN)
    for task in (tasks[0], tasks[-1]):
        assert list(task.rows()[0]) == list(benchmark.columns)
    for size in Size:  # no two tasks share a row
        keys = [tuple(task.key.items()) for task in benchmark.tasks(size)]
        assert len(set(keys)) == len(keys)
