"""A compiled model equals the eager one."""

import os
import subprocess
import sys

from linattn_ref.mixers import MIXERS

# A program: print for each mixer the largest difference between the compiled model and the eager one.
COMPILED = """
import sys
import torch
from linattn_ref.model import LanguageModel, ModelConfig

for name in sys.argv[1:]:
    torch.manual_seed(0)
    size = {"d_model": 16, "n_heads": 2, "n_layers": 1, "vocab_size": 16}
    options = {"max_length": 80} if name == "cosformer" else None
    model = LanguageModel(ModelConfig(name, **size, options=options)).double()
    tokens = torch.randint(16, (2, 70))
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        print(name, (compiled(tokens)[0] - model(tokens)[0]).abs().max().item())
    if name == "cosformer":
        try:
            torch.compile(model, backend="aot_eager")(torch.zeros(1, 81, dtype=torch.int64))
        except ValueError as error:
            print(error)
"""


def test_a_compiled_model_is_one_graph_and_equals_the_eager_one() -> None:
    """Without the annotation checks of the tests, which torch.compile does not trace."""
    environment = {key: value for key, value in os.environ.items() if key != "LINATTN_CHECK_SHAPES"}
    command = [sys.executable, "-c", COMPILED, *MIXERS]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    errors = {line.split()[0]: float(line.split()[1]) for line in lines if line.split()[0] in MIXERS}
    assert errors.keys() == MIXERS.keys()
    assert max(errors.values()) < 1e-10
    assert "max_length: got 81 tokens, expected at most 80, the option of the mixer" in lines


# A program: export a model once for all lengths, and print mixer, length and the largest difference.
EXPORTED = """
import sys
import torch
from linattn_ref import ops
from linattn_ref.model import LanguageModel, ModelConfig

ops.chunk_linear_attention = ops.parallel_linear_attention
for name in sys.argv[1:]:
    torch.manual_seed(0)
    model = LanguageModel(ModelConfig(name, d_model=16, n_heads=2, n_layers=1, vocab_size=16)).double()
    T = torch.export.Dim("T", min=3, max=4096)
    with torch.no_grad():
        zeros = torch.zeros(2, 70, dtype=torch.int64)
        program = torch.export.export(model, (zeros,), dynamic_shapes=({1: T},))
        for length in (3, 64, 129):
            tokens = torch.randint(16, (2, length))
            error = (program.module()(tokens)[0] - model(tokens)[0]).abs().max().item()
            print(name, length, error)
"""
ANY_LENGTH = ["softmax", "linear", "cosformer", "tnl", "gla", "hgrn2", "mlstm", "mamba2"]


def test_around_its_op_a_model_is_one_graph_for_every_length() -> None:
    """With the parallel form of linear attention: the chunk form loops over chunks."""
    environment = {key: value for key, value in os.environ.items() if key != "LINATTN_CHECK_SHAPES"}
    command = [sys.executable, "-W", "ignore", "-c", EXPORTED, *ANY_LENGTH]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    errors = [float(line.split()[2]) for line in done.stdout.splitlines()]
    assert len(errors) == 3 * len(ANY_LENGTH)
    assert max(errors) < 1e-10
