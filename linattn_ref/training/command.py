"""Run ``linattn train`` and ``linattn generate``."""

import argparse
import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import Any

import torch

from linattn_ref.backend import BACKENDS
from linattn_ref.mixers import MIXERS
from linattn_ref.model import LanguageModel, ModelConfig, generate
from linattn_ref.training.checkpoint import load_model, write_rows
from linattn_ref.training.config import TrainConfig
from linattn_ref.training.distributed import distributed, get_default_device
from linattn_ref.training.tasks import ByteCorpus
from linattn_ref.training.trainer import bits_per_byte, train

TRAIN = (
    "Train a language model on bytes. With --checkpoint, the same command goes on where it was stopped. "
    "Start it with torchrun -m linattn_ref.cli train to use several devices."
)
GENERATE = "Continue a prompt with the model of a checkpoint that linattn train wrote."


# --- linattn train ------------------------------------------------------------------------------------------


def add_train_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe ``linattn train``: its arguments, and what runs it."""
    parser.description = TRAIN
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    model = parser.add_argument_group("model").add_argument
    sizes = ModelConfig("linear", n_layers=4)
    model("--mixer", default=sizes.mixer, help=f"token mixer: {', '.join(MIXERS)}")
    more = "of the mixer; may be repeated; a wrong name tells which there are"
    model("--option", action="append", default=[], metavar="NAME=VALUE", help=more)
    model("--d-model", type=int, default=sizes.d_model, help="width")
    model("--n-layers", type=int, default=sizes.n_layers, help="blocks")
    model("--n-heads", type=int, default=sizes.n_heads, help="heads")
    model("--backend", choices=tuple(BACKENDS), default=sizes.backend, help="where the ops come from")
    text = parser.add_argument_group("text").add_argument
    text("--corpus", metavar="PATH", help="file, folder or hf:DATASET; default: Python's standard library")
    text("--pattern", default="*.txt", help="of the files in a folder")
    text("--max-bytes", type=int, metavar="N", help="use this much of the text")
    files = parser.add_argument_group("files").add_argument
    files("--checkpoint", type=Path, metavar="FILE", help="go on from this file, and write to it")
    files("--rows", type=Path, metavar="FILE", help="write a row for each step to this CSV file")
    training = parser.add_argument_group("training").add_argument
    training("--device", help="such as cpu or cuda; default: cuda if there is any")
    shard = "under torchrun: a part of the weights on each rank (FSDP2)"
    training("--shard", action="store_true", help=shard)
    for option in dataclasses.fields(TrainConfig):
        training(
            "--" + option.name.replace("_", "-"),
            type={"betas": float, "dtype": str}.get(option.name, type(option.default)),
            nargs=2 if option.name == "betas" else None,
            default=option.default,
            help=option.metadata["help"],
        )
    parser.set_defaults(run=run_train)


def run_train(arguments: argparse.Namespace) -> int:
    """Build model and corpus, train, write the rows, print the last loss; return the exit status."""
    values = {option.name: getattr(arguments, option.name) for option in dataclasses.fields(TrainConfig)}
    config = TrainConfig(**values | {"betas": tuple(arguments.betas)})
    shape = (arguments.mixer, arguments.d_model, arguments.n_layers, arguments.n_heads)
    options = dict(map(parse_option, arguments.option))
    sizes = ModelConfig(*shape, options=options, backend=arguments.backend)
    corpus = read_corpus(arguments.corpus, arguments.pattern, arguments.max_bytes)
    with distributed() as world:
        torch.manual_seed(config.seed)  # for the weights to start from
        model = LanguageModel(sizes)
        where = {"device": arguments.device, "checkpoint": arguments.checkpoint, "sharded": arguments.shard}
        rows = train(model, corpus, config, **where)
        if world.rank == 0:
            if arguments.rows is not None:
                write_rows(arguments.rows, rows)
            bits = bits_per_byte(rows[-1]["val_loss"] or math.nan)
            print(f"{rows[-1]['tokens']:,} bytes seen, validation {bits:.3f} bits per byte")
    return 0


def parse_option(text: str) -> tuple[str, Any]:
    """Split ``NAME=VALUE``; a value is a number, true, false, null, or else a word.

    Args:
        text: such as "decay=printed" or "state_size=16".

    Returns:
        The name and the value.

    Raises:
        ValueError: for a text without a name or without "=".

    Example:
        >>> parse_option("decay=printed"), parse_option("state_size=16"), parse_option("gate=True")
        (('decay', 'printed'), ('state_size', 16), ('gate', True))
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError(f"option: got {text!r}, expected NAME=VALUE")
    try:
        return name, json.loads(value.lower() if value in ("True", "False") else value)
    except json.JSONDecodeError:
        return name, value


def read_corpus(source: str | None, pattern: str = "*.txt", max_bytes: int | None = None) -> ByteCorpus:
    """Read the text that a command line names.

    Args:
        source: a file, a folder, "hf:" and a dataset of the Hugging Face hub, or None for the source of
            Python's standard library.
        pattern: of the files in a folder.
        max_bytes: use this much of the text; default None, all of it.

    Returns:
        The corpus.

    Raises:
        ValueError: nothing there, or too little text.
        ImportError, ConnectionError: see ``ByteCorpus.from_hugging_face``.

    Example:
        >>> read_corpus("no-such-file")
        Traceback (most recent call last):
            ...
        ValueError: path: got no-such-file, which does not exist, expected a file or a folder
    """
    if source is None:
        return ByteCorpus.python_stdlib(max_bytes)
    if source.startswith("hf:"):
        return ByteCorpus.from_hugging_face(source[3:], max_bytes=max_bytes)
    return ByteCorpus.from_path(source, pattern, max_bytes=max_bytes)


# --- linattn generate ---------------------------------------------------------------------------------------


def add_generate_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe ``linattn generate``: its arguments, and what runs it."""
    parser.description = GENERATE
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    add = parser.add_argument
    add("checkpoint", type=Path, metavar="CHECKPOINT", help="a file that linattn train wrote")
    add("--prompt", default="\n", help="text to continue; - reads it from the standard input")
    add("--n-bytes", type=int, default=400, metavar="N", help="how many bytes to write")
    add("--temperature", type=float, default=1.0, help="divides the logits; 0 takes the likeliest byte")
    add("--seed", type=int, default=0, help="of the random choices; the same seed gives the same text")
    add("--device", help="such as cpu or cuda; default: cuda if there is any")
    add("--backend", choices=tuple(BACKENDS), default="reference", help="where the ops come from")
    parser.set_defaults(run=run_generate)


def run_generate(arguments: argparse.Namespace) -> int:
    """Read the model, print the prompt and its continuation, and return the exit status."""
    prompt = sys.stdin.read() if arguments.prompt == "-" else arguments.prompt
    if not prompt:
        raise ValueError("prompt: got an empty one, expected a byte at least")
    device = get_default_device() if arguments.device is None else torch.device(arguments.device)
    model = load_model(arguments.checkpoint, arguments.backend).to(device)
    read = torch.tensor([list(prompt.encode("utf-8", "surrogateescape"))], device=device)  # [1, T]
    generator = torch.Generator(device).manual_seed(arguments.seed)
    new = generate(model, read, arguments.n_bytes, generator=generator, temperature=arguments.temperature)
    text = bytes([*read[0].tolist(), *new[0].tolist()]).decode("utf-8", "replace")
    print(text)
    return 0
