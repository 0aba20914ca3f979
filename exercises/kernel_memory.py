"""Keep the memory of a Triton kernel that an answer launches, and see all that the kernel touches.

The programs of a launch run one after the other here, on one processor. So a mistake that a GPU would punish
could pass: an entry read behind the end of a tensor, two programs that write to one place.
Here every load and store goes to a ``Memory``, which knows where tensors begin and end, which program has
touched which entry, and how many entries were read and written. In the grader it is in a process of its own.

Like serialization.py this file imports nothing else of ours, so that the sandbox of the grader can load it.
"""

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

COUNTS = ("loads", "stores", "busiest", "accesses", "widest")  # of a launch, see ``Memory``
NOBODY, SEVERAL = -1, -2  # in place of the number of a program


class Launch(NamedTuple):
    """Say how a kernel is launched. It is the first argument of a call, as a dict (see ``plan``).

    Args:
        grid: how many programs there are, along up to three axes.
        returned: the numbers of the arguments that the kernel writes, which are the result of the call.
        order: the seed of all that a GPU does not promise: in which order programs run, and how they round.
            It is drawn with the inputs, so a kernel does the same whenever it is judged on them.
    """

    grid: tuple[int, ...]
    returned: tuple[int, ...]
    order: int = 0


def plan(grid: Sequence[int], returned: Sequence[int], order: int = 0) -> dict[str, Any]:
    """Return a ``Launch`` as plain data, for ``Call.arguments``."""
    return {"grid": list(grid), "returned": list(returned), "order": order}


def read_plan(argument: Any) -> Launch | None:
    """Return the launch that an argument describes, or None if it is an ordinary one."""
    if not (isinstance(argument, dict) and argument.keys() == set(Launch._fields)):
        return None
    return Launch(tuple(argument["grid"]), tuple(argument["returned"]), argument["order"])


def drop_plan(arguments: Sequence[Any]) -> Sequence[Any]:
    """Return the arguments that a function or a kernel is given, without the plan of a launch before them."""
    return arguments[1:] if arguments and read_plan(arguments[0]) else arguments


class Memory:
    """Hold the tensors of a launch, and note which program touches which entry.

    Args:
        tensors: contiguous tensors on the processor; they are read and written.
        names: what the kernel calls them.
        addresses: where each of them begins, for the kernel.
        written: the numbers of those that the kernel may write; default: all.

    Attributes:
        loads, stores: entries that were read and written, however often.
        busiest: entries that the program which read most has read.
        accesses: loads and stores of tiles, however large.
        widest: entries that one of them has read or written.
        bytes_loaded, bytes_stored: the same in bytes.
    """

    def __init__(
        self,
        tensors: Sequence[torch.Tensor],
        names: Sequence[str],
        addresses: Sequence[int],
        written: Sequence[int] | None = None,
    ) -> None:
        self.names, self.addresses = list(names), list(addresses)
        self.written = set(range(len(tensors))) if written is None else set(written)
        self.sizes = [x.element_size() for x in tensors]
        self._bytes = [_view_bytes(x) for x in tensors]
        self._writer, self._reader = (
            [np.full(x.numel(), NOBODY, dtype=np.int64) for x in tensors] for _ in range(2)
        )
        self.loads = self.stores = self.bytes_loaded = self.bytes_stored = 0
        self._loads_of: Counter[int] = Counter()  # by program
        self.accesses = self.widest = 0

    @property
    def busiest(self) -> int:
        return max(self._loads_of.values(), default=0)

    def fingerprint(self) -> int:
        """Return a number that depends on all values that the tensors have now."""
        found = 0
        for data in self._bytes:
            found = zlib.crc32(data.tobytes(), found)
        return found

    def load(self, program: int, addresses: np.ndarray, size: int) -> bytes:
        """Return what stands at addresses.

        Args:
            program: the number of the program that reads.
            addresses: of int64.
            size: bytes of an entry.

        Raises:
            IndexError: if some lie outside of all tensors.
            RuntimeError: if another program has written there: no order is promised.
        """
        found = np.zeros((len(addresses), size), dtype=np.uint8)
        for number, here, entries in self._find(addresses, size, "reads"):
            others = self._writer[number][entries]
            if (clash := (others != NOBODY) & (others != program)).any():
                raise RuntimeError(
                    f"two programs meet: one reads entry {entries[clash][0]:,} of `{self.names[number]}`, "
                    "which another one has written, and nothing says which comes first"
                )
            self._mark(self._reader[number], entries, program)
            found[here] = self._bytes[number].reshape(-1, size)[entries]
        self._count(addresses)
        self.loads += len(addresses)
        self._loads_of[program] += len(addresses)
        self.bytes_loaded += found.size
        return found.tobytes()

    def store(self, program: int, addresses: np.ndarray, size: int, values: bytes) -> None:
        """Write to addresses.

        Args:
            program: the number of the program that writes.
            addresses: of int64.
            size: bytes of an entry.
            values: the entries.

        Raises:
            IndexError: if some lie outside of all tensors.
            RuntimeError: if another program has touched such an entry.
            ValueError: for a tensor that is to be read only.
        """
        given = np.frombuffer(values, dtype=np.uint8).reshape(len(addresses), size)
        for number, here, entries in self._find(addresses, size, "writes"):
            name = self.names[number]
            if number not in self.written:
                raise ValueError(f"writes to `{name}`, which is to be read only")
            for mark, does in ((self._writer[number], "written"), (self._reader[number], "read")):
                others = mark[entries]
                if (clash := (others != NOBODY) & (others != program)).any():
                    raise RuntimeError(
                        f"two programs meet: one writes entry {entries[clash][0]:,} of `{name}`, which "
                        f"another one has {does}, and nothing says which comes first (is a mask missing?)"
                    )
            places, counts = np.unique(entries, return_counts=True)
            if len(places) < len(entries) and _differ(entries, given[here]):
                place = places[counts > 1][0]
                raise RuntimeError(
                    f"one store writes several values to entry {place:,} of `{name}`, and any may stay"
                )
            self._writer[number][entries] = program
            self._bytes[number].reshape(-1, size)[entries] = given[here]
        self._count(addresses)
        self.stores += len(addresses)
        self.bytes_stored += given.size

    def skip(self) -> None:
        """Count a tile of which a mask leaves out everything."""
        self.accesses += 1

    def _count(self, addresses: np.ndarray) -> None:
        """Count a tile."""
        self.accesses += 1
        self.widest = max(self.widest, len(addresses))

    def refuse_unwritten(self) -> None:
        """Raise a ValueError if an entry that was to be written was not."""
        for number in sorted(self.written):
            left = int((self._writer[number] == NOBODY).sum())
            if left:
                name, size = self.names[number], len(self._writer[number])
                raise ValueError(
                    f"leaves {left:,} of the {size:,} entries of `{name}` as they were; a kernel returns "
                    "nothing, it stores"
                )

    def _find(
        self, addresses: np.ndarray, size: int, does: str
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield the number of each tensor that is touched, at which of the addresses, and which entries."""
        missing = np.ones(len(addresses), dtype=bool)
        for number, (base, data) in enumerate(zip(self.addresses, self._bytes, strict=True)):
            here = (addresses >= base) & (addresses < base + len(data)) & missing
            if not here.any():
                continue
            offsets = addresses[here] - base
            if size != self.sizes[number] or (offsets % size).any():
                raise ValueError(f"{does} `{self.names[number]}` as numbers of another type")
            missing &= ~here
            yield number, here, offsets // size
        if missing.any():
            raise IndexError(f"{does} {self._describe_place(addresses[missing], size)}")

    def _describe_place(self, addresses: np.ndarray, size: int) -> str:
        """Return in words where addresses lie that are in no tensor: beside the nearest."""
        first = int(addresses[0])
        places = []
        for name, base, data in zip(self.names, self.addresses, self._bytes, strict=True):
            behind = first - (base + len(data) - size)  # the last entry
            side = (
                f"{behind // size:,} behind the last"
                if behind > 0
                else f"{(base - first) // size:,} before the first"
            )
            places.append((max(behind, base - first), f"{side} entry of `{name}`"))
        return f"{len(addresses):,} entries outside of its tensors, such as that {min(places)[1]}"

    @staticmethod
    def _mark(marks: np.ndarray, entries: np.ndarray, program: int) -> None:
        """Note that a program has read entries."""
        before = marks[entries]
        marks[entries] = np.where((before == NOBODY) | (before == program), program, SEVERAL)


def _differ(entries: np.ndarray, values: np.ndarray) -> bool:
    """Return whether one entry is given several values."""
    pairs = np.unique(np.concatenate([entries[:, None].view(np.uint8), values], 1), axis=0)
    return len(pairs) > len(np.unique(entries))


def _view_bytes(x: torch.Tensor) -> np.ndarray:
    """Return the bytes of a contiguous tensor, as they stand in memory."""
    if not x.is_contiguous():
        raise ValueError(f"tensors: got one of strides {x.stride()}, expected contiguous ones")
    return x.detach().reshape(-1).view(torch.uint8).numpy() if x.numel() else np.zeros(0, dtype=np.uint8)


class KeptMemory:
    """Keep the memory of one launch for an answer that hands its kernel over as text.

    Args:
        launch: how the kernel is launched.
        arguments: its arguments.
    """

    def __init__(self, launch: Launch, arguments: Sequence[Any]) -> None:
        self.launch, self.arguments = launch, list(arguments)
        self._numbers = [n for n, x in enumerate(self.arguments) if isinstance(x, torch.Tensor)]
        self._memory: Memory | None = None

    def place(self, addresses: Sequence[int], names: Sequence[str]) -> Memory:
        """Let tensors begin at addresses, once, and return the memory.

        Raises:
            RuntimeError: if there has been a launch.
        """
        if self._memory is not None:
            raise RuntimeError("a kernel is launched once")
        tensors = [self.arguments[n] for n in self._numbers]
        written = [place for place, n in enumerate(self._numbers) if n in self.launch.returned]
        self._memory = Memory(tensors, [name[:80] for name in names], addresses, written)
        return self._memory

    def finish(self) -> tuple[Any, dict[str, int]]:
        """Return the tensors that the kernel was to write, and how many entries were read and written.

        Raises:
            ValueError: if one of them was left as it was, wholly or in part.
        """
        if self._memory is not None:
            self._memory.refuse_unwritten()
        made = tuple(self.arguments[n] for n in self.launch.returned)
        counts = {name: getattr(self._memory, name, 0) for name in COUNTS}
        return made if len(made) > 1 else made[0], counts
