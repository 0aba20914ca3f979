"""The command: run the named studies and save each as soon as it is there."""

import argparse
from pathlib import Path

import torch

import linattn_ref
from linattn_benchmarks.chapters import STUDIES
from linattn_book import results

ROOT = Path(linattn_ref.__file__).parents[1]


def main() -> None:
    """Run the named studies and save each as soon as it is there."""
    parser = argparse.ArgumentParser(prog="python -m linattn_benchmarks.chapters")
    parser.add_argument("names", nargs="+", choices=sorted(STUDIES))
    parser.add_argument("--reduced", action="store_true", help="sizes for a laptop, minutes at most")
    parser.add_argument("--out", type=Path, required=True, help="folder for the CSV files and index.json")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.names:
        study = STUDIES[name]
        torch.manual_seed(0)
        rows = study.run(args.reduced)
        seeds = sorted({row.get("seed", 0) for row in rows})  # rows of one seed need no column for it
        results.save(
            name,
            rows,
            columns=study.columns,
            command=f"python -m linattn_benchmarks.chapters {name}{' --reduced' * args.reduced} --out DIR",
            seed=seeds if len(seeds) > 1 else seeds[0],
            source_hash=results.source_hash([ROOT / source for source in study.sources]),
            directory=args.out,
        )
        print(f"{name}: written to {args.out}", flush=True)


if __name__ == "__main__":
    main()
