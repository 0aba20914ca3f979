"""Build the peer of the benchmark ``scans``: mamba-ssm's CUDA scan, cut down to what is timed.

``python -m linattn_benchmarks.kernels.build_mamba SOURCE OUT`` takes the unpacked source distribution of
mamba-ssm (2.3.2.post1 was measured) and puts the extension module ``selective_scan_cuda`` into the folder
OUT, for the GPU of this machine. Of its many template instances those are compiled that are timed: bfloat16,
real numbers, B and C of their own for each token, without gate and softplus. It needs nvcc and ninja, and
half a minute.
"""

import argparse
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

NAME = "selective_scan_cuda"
FILES = ("selective_scan.cpp", "selective_scan_fwd_bf16.cu", "selective_scan_bwd_bf16_real.cu")
FLAGS = ["-O3", "-std=c++17", "--expt-relaxed-constexpr", "--expt-extended-lambda", "--use_fast_math"]
FLAGS += [f"-U__CUDA_NO_{what}__" for what in ("HALF_OPERATORS", "HALF_CONVERSIONS")]
FLAGS += [
    f"-U__CUDA_NO_{kind}_{what}__"
    for kind in ("BFLOAT16", "BFLOAT162")
    for what in ("OPERATORS", "CONVERSIONS")
]
KEPT = {"kIsVariableB": "true", "kIsVariableC": "true", "kDeltaSoftplus": "false", "kHasZ": "false"}
ONLY = "\n#define ONLY(VALUE, NAME, ...) [&] { constexpr bool NAME = VALUE; return __VA_ARGS__(); }()\n"
TYPES = {  # macro that chooses a type: its only case, and the name of the type
    "DISPATCH_ITYPE_FLOAT_AND_HALF_AND_BF16": ("BFloat16", "at::BFloat16", "input_t"),
    "DISPATCH_WTYPE_FLOAT_AND_COMPLEX": ("Float", "float", "weight_t"),
}


def cut(name: str, text: str) -> str:
    """Return a file of the source with the instances that are timed alone.

    Raises:
        ValueError: if it is not written as expected.
    """
    if name == "static_switch.h":
        return text + ONLY
    for constant, value in KEPT.items() if name.endswith("_kernel.cuh") else ():
        text = re.sub(rf"BOOL_SWITCH\([^,]+, {constant},", f"ONLY({value}, {constant},", text)
    for macro, (case, type_, alias) in TYPES.items() if name == FILES[0] else ():
        one = (
            f"#define {macro}(KIND, NAME, ...) if (KIND == at::ScalarType::{case}) "
            f'{{ using {alias} = {type_}; __VA_ARGS__(); }} else {{ AT_ERROR(#NAME, " was cut"); }}\n'
        )
        text, found = re.subn(rf"#define {macro}\((?:.*\\\n)+.*\n", one, text)
        if found != 1:
            raise ValueError(f"{name}: got {found} definitions of {macro}, expected one")
    return text


def build(source: Path, out: Path) -> None:
    """Build the module of a source distribution into a folder.

    Raises:
        FileNotFoundError: if ``source`` is no such folder.
    """
    from torch.utils.cpp_extension import load

    folder = source / "csrc" / "selective_scan"
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        for file in sorted(folder.iterdir()):
            (here / file.name).write_text(cut(file.name, file.read_text()))
        made = here / "made"
        made.mkdir()
        sources = [str(here / file) for file in FILES]
        load(NAME, sources, FLAGS[:2], FLAGS, extra_include_paths=[str(here)], build_directory=str(made))
        out.mkdir(parents=True, exist_ok=True)
        shutil.copy(made / f"{NAME}.so", out)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parsing = argparse.ArgumentParser(description="Build mamba-ssm's scan.")
    parsing.add_argument("source", type=Path, help="folder of the unpacked source distribution")
    parsing.add_argument("out", type=Path, help="folder for the module; put it into PYTHONPATH")
    args = parsing.parse_args(arguments)
    build(args.source, args.out)


if __name__ == "__main__":
    main()
