"""Start processes from a test: with which environment, and several as torchrun does."""

import os
import socket
import subprocess
import sys

# one thread, so that every process adds in the same order, and no GPU
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def torchrun(*arguments: str) -> None:
    """Run a program in two processes, as ``torchrun`` does; fail with its errors unless it ends well.

    Args:
        arguments: of torchrun: the program's file, or "-m" and its module, and the program's arguments.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-addr=127.0.0.1"]
    done = subprocess.run(
        [*command, f"--master-port={port}", *arguments], env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
