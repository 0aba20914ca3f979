"""Run an answer on tensors whose values are kept elsewhere, so that all it computes is seen.

Some questions ask for the reader's own code, within bounds: no library softmax, no table of T x T, no loop
over tokens. What an answer calls cannot be told from the names in it (an alias, a default argument), NumPy
is not counted by torch, and what counts within the process of an answer can be changed by it. So in such a
question the answer gets *watched tensors*: they have a shape and a dtype, but no values. Each operation
goes to a ``Keeper``, which holds the values, counts, and refuses what is not elementary. In the grader the
keeper is a process of its own; in a notebook it is an object.

A call whose first argument is a launch is one of a Triton kernel. Its text is handed over, see
kernel_texts.py, and the keeper launches it.

Like serialization.py this file imports little of ours, so that the sandbox of the grader can load it.
"""

import base64
import builtins
import contextlib
import itertools
import json
import math
import os
import re
import socket
import sys
import threading
import types
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

if __package__:
    from linattn_exercises import kernel_memory, kernel_texts, launches, serialization
else:  # in the sandbox, whose worker has loaded them by their paths
    serialization, kernel_memory, kernel_texts, launches = (
        sys.modules[name] for name in ("serialization", "kernel_memory", "kernel_texts", "launches")
    )

# Packages that may not be used where own code is asked for.
LIBRARIES = ("linattn_ref", "linattn_kernels", "fla")
MAX_OPERATIONS = 20_000  # of one call
# What an answer may learn of values in one call, as in `if x.max() > 0`: a truth value is a bit, a number 64.
MAX_BITS = 1_000
MAX_AXES = 4  # of a mask
TELLING = {"equal", "allclose", "nonzero", "_local_scalar_dense", "index", "masked_select"}
TELLING |= {"repeat_interleave"}
RESHAPING = (
    "t",
    "transpose",
    "swapaxes",
    "squeeze",
    "unsqueeze",
)  # not in place: an answer keeps the old shape
BITS_OF_AN_ERROR = 64  # whose text may name a value, but not write out a tensor
LONGEST_ERROR = 300  # characters
CODES = re.compile("ScalarType|MemoryFormat|Layout")  # arguments that torch has as numbers
WRITTEN_OUT = re.compile(r"(?:\bValue:|\b[tT]ensor\().*", re.DOTALL)
MATRIX_PRODUCTS = (
    "mm",
    "bmm",
    "addmm",
    "baddbmm",
    "addbmm",
    "mv",
    "addmv",
    "dot",
    "vdot",
    "matmul",
)
# What is picked or written counts as work, not what it is picked from.
PICKING = {"index", "index_select", "gather", "take", "embedding", "index_put", "index_add", "index_copy"}
PICKING |= {"index_fill", "scatter", "scatter_add", "scatter_reduce", "masked_scatter", "masked_select"}
# Of torch's own Python, the files that honest code passes through; what else stands there does whole tasks.
TORCH = os.path.join(os.path.dirname(torch.__file__), "")
TORCH_FILES = {
    *("functional.py", "nn/functional.py", "_tensor.py", "_ops.py", "overrides.py", "_jit_internal.py"),
    *("utils/_python_dispatch.py", "utils/_contextlib.py", "utils/_device.py", "autograd/grad_mode.py"),
    *("_compile.py", "_dynamo/eval_frame.py", "nn/modules/module.py"),
    *("_functorch/apis.py", "_functorch/vmap.py", "_functorch/predispatch.py"),  # vmap; all is counted
}
# Installed packages are refused but for this one, where references and known answers stand.
OURS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
OF_ANSWER = re.compile(r"<answer \d+>|<ipython-input-|.*[/\\]ipykernel_\d+[/\\]")  # files of its cells
INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
MAX_MESSAGE = 64_000_000  # bytes
MAX_ENTRIES = 2_000_000  # of a tensor that is made of Python's numbers; at 8 bytes it fits into a message
HANDLES = itertools.count(1)  # of all keepers: a tensor that outlives its call is no other
MASKS = (torch.bool, torch.uint8)
UNFILLED = ("empty", "empty_like", "new_empty")
LIKE_ANOTHER = ("new_empty", "new_full", "new_ones", "new_zeros")  # of whose tensor they take the dtype alone
OF_DTYPES = ("promote_types", "result_type", "can_cast")  # they ask for dtypes, and tell nothing of values
# All others return tensors; overloads that return numbers may write a tensor into an error.
TELLING_NUMBERS = {*OF_DTYPES, "equal", "allclose", "_local_scalar_dense"}
COUNTS = (
    "entries",
    "integers",
    "truths",
    "operations",
    "work",
    "held",
    "positions",
    "loads",
    "stores",
    "busiest",
    "accesses",
    "widest",
)
TOO_MUCH = (
    "too many numbers were taken out of torch, where operations are counted; for places use Python's range"
)
COMPLEX = "complex numbers are not counted here; use real ones"
OUTSIDE = "a watched tensor was used outside of the call that it belongs to; make it anew in each call"
REFUSED = "this question asks for your own code, without `{}`"

# torch's elementary operations, without the underscore of those that work in place.
NAMES = """
__lshift__ __rshift__ _local_scalar_dense _to_copy _unsafe_view abs acos acosh add addbmm addcdiv addcmul
addmm addmv addr alias all allclose amax amin aminmax any arange argmax argmin argsort asin asinh atan atan2
atanh baddbmm bitwise_and bitwise_not bitwise_or bitwise_xor block_diag bmm cat ceil clamp clamp_max
clamp_min clone constant_pad_nd contiguous copy copysign cos cosh count_nonzero cross cummax cummin cumprod
cumsum detach diag_embed diagonal diagonal_copy diagonal_scatter diff div dot elu embedding empty empty_like
eq equal erf erfc erfinv exp exp2 expand expand_as expm1 eye fill flip floor floor_divide fmax fmin fmod
frac full full_like gather ge gelu gt hardtanh heaviside hypot index index_add index_copy index_fill
index_put index_select isclose isfinite isin isinf isnan isneginf isposinf le leaky_relu lerp lgamma lift
lift_fresh linalg_vector_norm linspace log log10 log1p log2 logical_and
logical_not logical_or logical_xor logit logspace lt masked_fill masked_scatter masked_select matmul max
maximum mean median min minimum mm movedim mul mv nan_to_num nansum narrow_copy ne neg new_empty new_full
new_ones new_zeros nonzero norm ones ones_like outer permute pow prod rand rand_like randint randn
randn_like randperm reciprocal relu remainder repeat repeat_interleave reshape roll rot90 round rsqrt rsub
scalar_tensor scatter scatter_add scatter_reduce select select_scatter sgn sigmoid sign signbit silu sin
sinh slice slice_scatter sort split split_with_sizes sqrt square squeeze stack std std_mean sub sum swapaxes
t take tan tanh tile topk trace transpose tril tril_indices triu triu_indices trunc unbind unfold
unsafe_chunk unsafe_split unsqueeze unsqueeze_copy var var_mean vdot view view_as where xlogy zero zeros
zeros_like
"""
ELEMENTARY = frozenset(NAMES.split()) | set(OF_DTYPES)

# --- messages between an answer and the keeper --------------------------------------------------------------

Ask = Callable[[dict[str, Any]], dict[str, Any]]  # sends a request, and returns the reply


def send(channel: socket.socket, message: dict[str, Any]) -> None:
    """Send a message."""
    text = json.dumps(message).encode()
    channel.sendall(len(text).to_bytes(8, "big") + text)


def receive(channel: socket.socket) -> dict[str, Any] | None:
    """Return the next message, or None when there is no more."""
    length = int.from_bytes(_receive_bytes(channel, 8), "big")
    if not 0 < length < MAX_MESSAGE:
        return None
    text = _receive_bytes(channel, length)
    found = json.loads(text) if len(text) == length else None
    return found if isinstance(found, dict) else None


def _receive_bytes(channel: socket.socket, length: int) -> bytes:
    """Return as many bytes, or fewer if the channel ends."""
    found = bytearray()
    while len(found) < length and (part := channel.recv(min(length - len(found), 1 << 20))):
        found += part
    return bytes(found)


def _dump_tensor(x: torch.Tensor) -> list[Any]:
    """Return dtype, shape and values of a tensor as plain data."""
    if x.numel() > MAX_ENTRIES:
        raise ValueError(f"made a tensor of {x.numel():,} entries, expected at most {MAX_ENTRIES:,}")
    if not x.numel():
        return [str(x.dtype).removeprefix("torch."), list(x.shape), ""]
    values = x.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return [str(x.dtype).removeprefix("torch."), list(x.shape), base64.b64encode(values).decode()]


def _load_tensor(data: Any) -> torch.Tensor:
    """Return the tensor that ``_dump_tensor`` was given."""
    name, shape, text = data
    values = bytearray(base64.b64decode(text))
    dtype = _find_dtype(name)
    return torch.frombuffer(values, dtype=dtype).reshape(shape) if values else torch.zeros(shape, dtype=dtype)


def _find_dtype(name: Any) -> torch.dtype:
    """Return a dtype by its name, such as "float64"."""
    found: torch.dtype = _find_constant(name, torch.dtype)
    if found.is_complex:
        raise TypeError(COMPLEX)
    return found


def _find_constant(name: Any, kind: type) -> Any:
    """Return a constant of torch of some kind by its name."""
    found = getattr(torch, name, None) if isinstance(name, str) else None
    if not isinstance(found, kind):
        raise ValueError(f"{kind.__name__}: got {str(name)[:80]!r}, expected one of torch's")
    return found


# --- the keeper: it has the values --------------------------------------------------------------------------


class Keeper:
    """Hold the values of watched tensors, do the operations that an answer asks for, and count them.

    It counts, in each call, the ``entries`` of the largest tensor of floating-point numbers that is made (but
    not views of arguments), those of the largest of ``integers`` and of ``truths``, the ``operations`` of
    torch that are no views, the ``work``, and what is ``held`` at a time of what the answer has made: entries
    of floating-point numbers and of whole ones that were made of those, eight truth values as one. Other
    whole numbers are ``positions``. Work is one for each multiplication in a matrix product, and for each
    entry that another operation computes or, where it adds up, reads.

    Its ``bits`` are what the answer has learnt of values, by the number of a call.

    Args:
        calls: the encoded arguments of each watched call, see ``serialization.encode``.
    """

    def __init__(self, calls: Sequence[list[Any]]) -> None:
        self.calls = calls
        # By the number of a call: {"value", "entries", "operations"}, or an error if something was refused.
        self.outcomes: dict[int, dict[str, Any]] = {}
        self._call: int | None = None  # the one that is going on
        self._last = -1
        self._tensors: dict[int, torch.Tensor] = {}  # by their handles
        self._arguments: list[Any] = []  # those of the call
        self._given: set[int] = set()  # where the values of the arguments lie
        self._holders: Counter[int] = Counter()  # of other places: how many tensors lie there
        self._sizes: dict[int, tuple[str, int]] = {}  # and as what they count, and how many entries they have
        self._held: Counter[str] = Counter()
        self._of_places = False  # whether whole numbers that are made come of no others
        self._counts = dict.fromkeys(COUNTS, 0)
        self.bits = [0] * len(calls)
        self._asked = 0
        self._launch: kernel_memory.KeptMemory | None = None  # of the call, if it launches a kernel

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what is asked, and return the reply; ``{"error", "text"}`` if it fails."""
        try:
            if "begin" in request:
                return self._begin(request["begin"])
            if self._call is None:
                raise RuntimeError(OUTSIDE)
            if self._launch is not None and "end" not in request:
                return self._launch_kernel(self._launch, request["kernel"])
            if "end" in request:
                return self._end(request["end"])
            return {"result": self._run(request)}
        except BaseException as error:
            serialization.let_through(error)
            if self._call is not None and self._tell(BITS_OF_AN_ERROR):
                error = PermissionError(TOO_MUCH)
            found = serialization.describe_exception(error)
            if self._call is not None and isinstance(error, PermissionError):
                self.outcomes.setdefault(self._call, found)
            return {
                "error": found["error"],
                "text": WRITTEN_OUT.sub("", found["text"])[:LONGEST_ERROR].rstrip(),
            }

    def _begin(self, number: Any) -> dict[str, Any]:
        """Begin a call, and return its arguments: plain data, and descriptions of tensors."""
        if type(number) is not int or not self._last < number < len(self.calls):
            raise RuntimeError("calls are made once each, in order")
        self._call = self._last = number
        self._tensors = {}
        self._counts = dict.fromkeys(COUNTS, 0)
        self._holders, self._sizes, self._held, self._asked = Counter(), {}, Counter(), 0
        self._arguments = [serialization.decode(one) for one in self.calls[number]]
        launch = kernel_memory.read_plan(self._arguments[0]) if self._arguments else None
        self._launch = kernel_memory.KeptMemory(launch, self._arguments[1:]) if launch else None
        if self._launch is not None:
            return {"launch": True}
        tensors = [x for x in self._arguments if isinstance(x, torch.Tensor)]
        self._given = {x.untyped_storage().data_ptr() for x in tensors}
        return {"arguments": [self._describe(one) for one in self._arguments]}

    def _launch_kernel(self, kept: kernel_memory.KeptMemory, described: Any) -> dict[str, Any]:
        """Make a kernel anew and launch it here, where no answer runs; note what it raises."""
        assert self._call is not None
        try:
            launches.launch_kept(kernel_texts.build_kernel(described), kept)
        except BaseException as error:
            serialization.let_through(error)
            self.outcomes.setdefault(self._call, serialization.describe_exception(error))
            raise
        return {"done": True}

    def _end(self, value: Any) -> dict[str, Any]:
        """End a call, and note the value that the answer has returned."""
        assert self._call is not None
        try:
            if self._launch is not None:
                made, counts = self._launch.finish()
                outcome = {"value": serialization.encode(made), **self._counts, **counts}
                self.outcomes.setdefault(self._call, outcome)
                return {"done": True}
            value = serialization.encode(self._restore_value(value, serialization.Budget(TypeError)))
            serialization.refuse_changes(self._arguments, self.calls[self._call])
            self.outcomes.setdefault(self._call, {"value": value, **self._counts})
        except BaseException as error:
            self._tell(BITS_OF_AN_ERROR)
            self.outcomes.setdefault(self._call, serialization.describe_exception(error))
            raise
        finally:
            self._call, self._tensors, self._launch = None, {}, None
        return {"done": True}

    def _run(self, request: dict[str, Any]) -> Any:
        """Do an operation, and describe its result."""
        operation, base = self._find_operation(request)
        for handle in request.get("dropped", ()):
            self._drop(handle)
        self._asked += 1
        if self._asked > MAX_OPERATIONS:
            raise RuntimeError(f"took more than {MAX_OPERATIONS:,} torch operations")
        schema = operation._schema.arguments
        by_name = {one.name: one for one in schema}
        arguments = [self._restore(x, one) for x, one in zip(request["args"], schema, strict=False)]
        options = {key: self._restore(x, by_name[key]) for key, x in request["kwargs"].items()}
        named = {one.name: x for one, x in zip(schema, arguments, strict=False)} | options
        given = {one.name: named[one.name] for one in schema if one.name in named}
        masks = [one for one in given.get("indices") or () if one is not None and one.dtype in MASKS]
        if any(one.dim() > MAX_AXES for one in masks):  # what memory they take tells how many are true
            raise TypeError(f"a mask in an index has up to {MAX_AXES} axes here")
        if len(masks) > 1:
            raise TypeError("two masks in one index tell how many places each has; use one, or places")
        self._take_over(operation, given)
        try:
            result = _run_with_dtype(request["default"], operation, arguments, options)
        except Exception:  # it may have done a part
            self._counts["operations"] += 1
            self._counts["work"] += max(
                (x.numel() for x in _iterate_tensors(list(given.values()))), default=0
            )
            raise
        if base in OF_DTYPES:
            return self._describe(result)
        is_view = _is_view(operation, given, result)
        self._counts["operations"] += not is_view
        self._counts["work"] += 0 if is_view else _measure_work(operation, base, given, result)
        if any(x.is_complex() for x in _iterate_tensors(result)):
            raise TypeError(COMPLEX)
        if base in UNFILLED:
            result.fill_(math.nan if result.is_floating_point() else 0)  # not with what was dropped before
        if base in TELLING or isinstance(result, (bool, int, float)) or _lists_places(base, given):
            self._count_bits(base, given, result)
        if any(map(_is_whole, _iterate_tensors(result))):
            self._of_places = not any(map(self._is_of_numbers, _iterate_tensors(list(given.values()))))
        return self._describe(result)

    def _take_over(self, operation: Any, given: dict[str, Any]) -> None:
        """Count an argument of the call from now on, if it is written to."""
        written = [given.get(one.name) for one in operation._schema.arguments if _is_written(one)]
        for x in _iterate_tensors(written):
            place = x.untyped_storage().data_ptr()
            if place in self._given:
                self._given.discard(place)
                alike = [one for one in self._tensors.values() if one.untyped_storage().data_ptr() == place]
                self._holders[place] = len(alike)
                self._hold(x, place, "held")

    def _find_operation(self, request: dict[str, Any]) -> tuple[Any, str]:
        """Return the operation that is asked for, and its name without "aten::" and without underscore."""
        name, overload = str(request["run"]), str(request["overload"])
        full = name.removeprefix("aten::")
        base = full if full.startswith("_") else full.rstrip("_")
        if base in RESHAPING and full != base:
            raise TypeError(f"`{full}` changes a shape in place; use `{base}`")
        if not name.startswith("aten::") or base not in ELEMENTARY:
            raise PermissionError(REFUSED.format(full.strip("_").split("::")[-1]))
        packet = getattr(torch.ops.aten, full)
        if overload not in packet.overloads():
            raise PermissionError(REFUSED.format(f"{full}.{overload}"))
        operation = getattr(packet, overload)
        if base == "view" and overload == "dtype":
            raise TypeError("`view` of another dtype reads bits, not numbers; use `to`")
        told = [str(one.type) for one in operation._schema.returns]
        if base not in TELLING_NUMBERS and not (told and all("Tensor" in one for one in told)):
            raise PermissionError(REFUSED.format(f"{full}.{overload}"))
        if any(one.is_out for one in operation._schema.arguments):
            raise TypeError(f"`{full}` cannot write to `out` here; use its result")
        return operation, base

    def _count_bits(self, base: str, given: dict[str, Any], result: Any) -> None:
        """Count what the answer learns of values by a result that is a number, or whose shape they decide."""
        if isinstance(result, bool):
            bits = 1
        elif isinstance(result, (int, float)):
            bits = 64
        elif base == "index" and not any(one.dtype in MASKS for one in given["indices"] if one is not None):
            return
        else:  # as many as the number of entries has
            sizes = [x.numel() for x in _iterate_tensors(list(given.values()))]
            sizes += [n for x in _iterate_tensors(result) for n in x.shape]
            bits = max(sizes).bit_length()
        if self._tell(bits):
            raise PermissionError(TOO_MUCH)

    def _tell(self, bits: int) -> bool:
        """Count what the answer learns in the call that is going on; return whether that is too much."""
        self.bits[self._last] += bits
        return self.bits[self._last] > MAX_BITS

    def _keep(self, x: torch.Tensor) -> int:
        """Keep a tensor, count it, and return its handle."""
        handle = next(HANDLES)
        self._tensors[handle] = x
        place = x.untyped_storage().data_ptr()  # that of a view is its base's
        if place not in self._given:
            self._count_entries(x)
            self._holders[place] += 1
            self._hold(x, place, "positions" if _is_whole(x) and self._of_places else "held")
        return handle

    def _hold(self, x: torch.Tensor, place: int, kind: str) -> None:
        """Count a tensor's place among what is held; positions that are written over are none any more."""
        if self._sizes.get(place, ("",))[0] in ("held", kind):
            return
        self._let_go(place)
        self._sizes[place] = kind, _count_places(x, x.untyped_storage().nbytes())
        self._held[kind] += self._sizes[place][1]
        self._counts[kind] = max(self._counts[kind], self._held[kind])

    def _let_go(self, place: int) -> None:
        """Count a place no more among what is held."""
        kind, size = self._sizes.pop(place, ("held", 0))
        self._held[kind] -= size

    def _is_of_numbers(self, x: torch.Tensor) -> bool:
        """Return whether a tensor holds floating-point numbers, or whole ones that were made of them."""
        kind, _ = self._sizes.get(x.untyped_storage().data_ptr(), ("", 0))
        return _is_of_floats(x) or (_is_whole(x) and kind == "held")

    def _count_entries(self, x: torch.Tensor) -> None:
        """Count a tensor among the largest that were made."""
        kind = "truths" if x.dtype == torch.bool else "integers" if _is_whole(x) else "entries"
        size = min(x.untyped_storage().nbytes(), x.numel() * x.element_size())
        self._counts[kind] = max(self._counts[kind], size if kind == "truths" else _count_places(x, size))

    def _drop(self, handle: int) -> None:
        """Keep a tensor no more."""
        x = self._tensors.pop(handle, None)
        place = x.untyped_storage().data_ptr() if x is not None else -1
        if self._holders.get(place):
            self._holders[place] -= 1
            if not self._holders[place]:
                self._let_go(place)

    def _describe(self, x: Any) -> Any:
        """Return a result, or an argument, as the answer may see it."""
        if isinstance(x, torch.Tensor):
            dtype = str(x.dtype).removeprefix("torch.")
            return {"tensor": [self._keep(x), dtype, list(x.shape), list(x.stride())]}
        if isinstance(x, (list, tuple)):
            kind = "tuple" if isinstance(x, tuple) else "list"
            return {kind: [self._describe(one) for one in x]}
        if isinstance(x, dict):
            return {"dict": [[key, self._describe(one)] for key, one in x.items()]}
        if isinstance(x, complex):
            raise TypeError("a complex number cannot be taken out of torch here")
        return x

    def _restore(self, data: Any, wanted: Any) -> Any:
        """Return an argument of an operation from what the answer has sent.

        Args:
            data: what was sent.
            wanted: what the schema says of the argument; a tensor may stand only where it wants one.
        """
        if CODES.search(str(wanted.real_type)) and not isinstance(data, (dict, types.NoneType)):
            raise TypeError(f"{wanted.name}: got a number, expected a name")  # torch takes any, and ends
        if not isinstance(data, dict):
            return data
        ((kind, content),) = data.items()
        if kind == "list":
            if "List[" not in str(wanted.type):
                raise TypeError(f"{wanted.name}: got a list, expected one value")
            return [self._restore(one, wanted) for one in content]
        if kind == "dtype":
            return _find_dtype(content)
        if kind == "memory_format":
            return _find_constant(content, torch.memory_format)
        if "Tensor" not in str(wanted.type):
            raise TypeError(f"{wanted.name}: got a tensor, expected a number")
        if kind == "handle":
            return self._get(content)
        if kind == "local":
            found = _load_tensor(content)
            if found.is_complex():
                raise TypeError(COMPLEX)
            self._count_entries(found)
            return found
        raise ValueError("request: not made by a link")

    def _restore_value(self, data: Any, budget: serialization.Budget) -> Any:
        """Return the value of an answer from what it has sent: plain data, and handles."""
        ((kind, content),) = data.items()
        if kind == "handle":
            return self._get(content)
        if kind in ("list", "tuple"):
            budget.add_items(kind, len(content))
            values = [self._restore_value(one, budget) for one in content]
            return tuple(values) if kind == "tuple" else values
        return serialization.decode(content)

    def _get(self, handle: Any) -> torch.Tensor:
        """Return a tensor by its handle."""
        if handle not in self._tensors:
            raise RuntimeError(OUTSIDE)
        return self._tensors[handle]


def _run_with_dtype(default: Any, operation: Any, arguments: list[Any], options: dict[str, Any]) -> Any:
    """Do an operation, where new tensors have the dtype that is the default in the process of the answer."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(_find_dtype(default))
    try:
        with torch.no_grad():
            return operation(*arguments, **options)
    finally:
        torch.set_default_dtype(before)


def _measure_work(operation: Any, base: str, given: dict[str, Any], result: Any) -> int:
    """Return what is counted as the work of an operation, see ``Keeper``."""
    made = max((x.numel() for x in _iterate_tensors(result)), default=1)
    tensors = list(_iterate_tensors(list(given.values())))
    if base == "copy" and len(tensors) == 2 and _is_same_view(*tensors):
        return 0  # Python puts `x[:i]` back into its place after `x[:i] *= 2`
    if base in MATRIX_PRODUCTS:
        first = tensors[1 if base.startswith("add") or base == "baddbmm" else 0]
        batches = len(first) if base == "addbmm" else 1  # which it sums over
        return made * first.shape[-1] * batches
    if base in LIKE_ANOTHER:
        return made
    read = [x.numel() for x in tensors]
    if base in PICKING:
        if any(map(_is_written, operation._schema.arguments)):
            return max(read[1:], default=1)
        adds = "add" in base or "reduce" in base or given.get("reduce") or given.get("accumulate")
        return max([made, *read[1:]]) if adds else made
    return max([made, *read])


def _is_same_view(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Return whether two tensors are the same entries in memory."""
    return x.data_ptr() == y.data_ptr() and x.shape == y.shape and x.stride() == y.stride()


def _is_view(operation: Any, given: dict[str, Any], result: Any) -> bool:
    """Return whether an operation has only looked at a tensor in another way; `reshape` may copy one."""
    returns = operation._schema.returns
    alias = returns[0].alias_info if returns else None
    places = {x.untyped_storage().data_ptr() for x in _iterate_tensors(list(given.values()))}
    made = [x.untyped_storage().data_ptr() for x in _iterate_tensors(result)]
    return alias is not None and not alias.is_write and places.issuperset(made)


def _is_written(argument: Any) -> bool:
    """Return whether an operation writes to an argument."""
    return argument.alias_info is not None and argument.alias_info.is_write


def _lists_places(base: str, given: dict[str, Any]) -> bool:
    """Return whether an operation gives the places of a mask, as ``where(mask)`` does."""
    return base == "where" and len(given) == 1


def _count_places(x: torch.Tensor, n_bytes: int) -> int:
    """Return how many entries stand in so many bytes of a tensor, see ``Keeper``."""
    return -(-n_bytes // (x.element_size() if _is_of_floats(x) else 8))


def _is_of_floats(x: torch.Tensor) -> bool:
    """Return whether a tensor holds floating-point numbers."""
    return x.is_floating_point() or x.is_complex()


def _is_whole(x: torch.Tensor) -> bool:
    """Return whether a tensor holds whole numbers."""
    return x.dtype != torch.bool and not _is_of_floats(x)


def serve(
    keeper: Keeper,
    channel: socket.socket,
    note: Callable[[int, dict[str, Any]], None],
    pause: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> None:
    """Reply to an answer in another process until it ends.

    Args:
        keeper: what replies.
        channel: where requests come from.
        note: called with the number of a call and its outcome as soon as there is one.
        pause: within it nothing of the answer runs that could see how the keeper works.
    """
    noted: set[int] = set()
    while (request := receive(channel)) is not None:
        with pause():
            reply = keeper.reply(request)
        for number in keeper.outcomes.keys() - noted:
            note(number, keeper.outcomes[number])
            noted.add(number)
        send(channel, reply)


# --- the answer's side --------------------------------------------------------------------------------------


PRODUCTS = (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__)
PARTS = torch._C.DispatchKey.CompositeImplicitAutograd  # type: ignore[attr-defined]
HAS_KERNEL = torch._C._dispatch_has_kernel_for_dispatch_key  # type: ignore[attr-defined]


class WatchedTensor(torch.Tensor):
    """Stand for a tensor that a keeper holds. It has shape and dtype; every operation goes to the keeper."""

    handle: int
    link: "Link"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        link = next(one.link for one in _iterate_tensors((args, kwargs)) if isinstance(one, WatchedTensor))
        return link.take_apart(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"tensor(values are kept by the check, shape={list(self.shape)}, dtype={self.dtype})"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # torch multiplies a vector by a matrix through squeeze_, which changes the shape of its own tensor.
        if func in PRODUCTS and len(args) == 2 and args[0].ndim == 1 and args[1].ndim > 1:
            return torch.matmul(args[0][None], args[1]).squeeze(-2)
        if func is torch.Tensor.fill_diagonal_ and args[0].ndim == 2 and len(set(args[0].shape)) == 1:
            args[0].diagonal().fill_(args[1] if len(args) > 1 else (kwargs or {})["fill_value"])
            return args[0]
        return super().__torch_function__(func, types, args, kwargs or {})

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        return self.clone()

    def __format__(self, how: str) -> str:
        return format(self.item(), how) if how else repr(self)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        """Refuse to leave torch."""
        raise TypeError("tensors stay in torch here, where operations are counted: no arrays, no lists")

    numpy = tolist = __array__ = apply_ = map_ = map2_ = _refuse  # type: ignore[assignment]


def _iterate_tensors(x: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested arguments."""
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, (list, tuple, dict)):
        for one in x.values() if isinstance(x, dict) else x:
            yield from _iterate_tensors(one)


class Link(TorchDispatchMode):
    """Connect an answer with the keeper of its tensors; tensors made while it is active are kept as well.

    Args:
        ask: sends a request to the keeper, and returns the reply.
    """

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        self._ask = ask
        self._dropped: list[int] = []  # handles of tensors that are gone
        self._lock = threading.Lock()  # a request and its reply belong together

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.take_apart(func, args, kwargs or {})

    def take_apart(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Have an operation done, or those that it is made of where torch has not taken it apart.

        Under ``torch.inference_mode`` torch leaves that to whoever gets the operation.
        """
        if func is torch.ops.aten.detach_.default:  # torch.tensor does it; there is nothing to detach from
            return args[0]
        if not torch.is_inference_mode_enabled() or not HAS_KERNEL(func.name(), PARTS):
            return self.run(func, args, kwargs)
        with self:
            return func._op_dk(PARTS, *args, **kwargs)

    def call(self, number: int, answer: Callable[..., Any]) -> None:
        """Make a watched call: get its arguments, run the answer, and hand its value to the keeper."""
        begun = self._request({"begin": number})
        if "launch" in begun:
            self._request({"kernel": kernel_texts.describe_kernel(answer)})
            self._request({"end": None})
            return
        arguments = [self._unpack(one) for one in begun["arguments"]]
        with self:
            value = answer(*arguments)
        self._request({"end": self._pack_value(value, serialization.Budget(TypeError))})

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Have an operation done by the keeper."""
        refuse_libraries(sys._getframe(1))
        schema = func._schema
        written = [
            args[i] if i < len(args) else kwargs.get(one.name)
            for i, one in enumerate(schema.arguments)
            if _is_written(one)
        ]
        if any(not isinstance(one, WatchedTensor) for one in _iterate_tensors(written)):
            raise TypeError("a tensor that was made outside of the function is written to; make it inside")
        dropped, self._dropped = self._dropped, []
        request = {
            "dropped": dropped,
            "run": schema.name,
            "overload": schema.overload_name or "default",
            "default": str(torch.get_default_dtype()).removeprefix("torch."),
            "args": [self._pack(one) for one in args],
            "kwargs": {key: self._pack(one) for key, one in kwargs.items()},
        }
        result = self._unpack(self._request(request)["result"])
        return written[0] if written else result  # what was changed in place is the same tensor

    def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request; raise what the keeper raised."""
        with self._lock:
            reply = self._ask(request)
        if "error" in reply:
            raise getattr(builtins, reply["error"], RuntimeError)(reply["text"])
        return reply

    def _pack(self, x: Any) -> Any:
        """Return an argument of an operation as plain data."""
        if isinstance(x, WatchedTensor):
            return {"handle": x.handle}
        if isinstance(x, torch.Tensor):
            return {"local": _dump_tensor(x)}
        if isinstance(x, (list, tuple)):
            return {"list": [self._pack(one) for one in x]}
        if isinstance(x, torch.dtype):
            return {"dtype": str(x).removeprefix("torch.")}
        if isinstance(x, torch.memory_format):
            return {"memory_format": str(x).removeprefix("torch.")}
        if isinstance(x, (torch.device, torch.layout)):
            return None  # all is dense, and on the processor
        if x is None or isinstance(x, (bool, int, float, str)):
            return x
        raise TypeError(f"a {type(x).__name__} cannot be used where torch operations are counted")

    def _unpack(self, data: Any) -> Any:
        """Return a result: tensors are watched ones."""
        if not isinstance(data, dict):
            return data
        ((kind, content),) = data.items()
        if kind == "dict":
            return {key: self._unpack(one) for key, one in content}
        if kind != "tensor":
            values = [self._unpack(one) for one in content]
            return tuple(values) if kind == "tuple" else values
        handle, dtype, shape, stride = content
        with torch.inference_mode(False):  # torch keeps versions of tensors that are made outside of it
            made = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
                WatchedTensor, shape, strides=stride, dtype=_find_dtype(dtype), device=torch.device("cpu")
            )
        made.handle, made.link = handle, weakref.proxy(self)
        weakref.finalize(made, self._drop, handle).atexit = False
        return made

    def _drop(self, handle: int) -> None:
        """Note that the answer holds a tensor no more."""
        self._dropped.append(handle)

    def _pack_value(self, value: Any, budget: serialization.Budget) -> Any:
        """Return the value of an answer as plain data, watched tensors as their handles."""
        if isinstance(value, WatchedTensor):
            return {"handle": value.handle}
        if isinstance(value, (list, tuple)):
            kind = "tuple" if isinstance(value, tuple) else "list"
            budget.add_items(kind, len(value))
            return {kind: [self._pack_value(one, budget) for one in value]}
        return {"plain": serialization.encode(value, budget)}


def refuse_libraries(frame: types.FrameType | None) -> None:
    """Refuse an operation that a library does for the answer, where own code is asked for.

    What the answer has defined may call operations, as may the standard library and the listed files of
    torch. Packages that are installed may not, but they may call the answer, as one that checks types does.

    Args:
        frame: the innermost frame of the call stack that may be the library's.
    """
    called_by_answer = False
    while frame is not None and frame.f_code is not Link.call.__code__:
        module, file = str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename
        name = module.split(".")[0]
        called_by_answer = called_by_answer or bool(OF_ANSWER.match(file))
        if file.startswith(TORCH):
            if file.removeprefix(TORCH) not in TORCH_FILES:
                raise PermissionError(REFUSED.format(module))
        elif not called_by_answer and (name in LIBRARIES or _is_installed(file)):
            raise PermissionError(REFUSED.format(name))
        frame = frame.f_back


@lru_cache(maxsize=1024)
def _is_installed(file: str) -> bool:
    """Return whether a file is a package's, and neither the answer's own nor the standard library's."""
    return any(folder in file for folder in INSTALLED) and not file.startswith(OURS)


def watch_call(namespace: Mapping[str, Any], name: str, arguments: list[Any]) -> dict[str, Any]:
    """Make a watched call in this process, and return its outcome.

    Args:
        namespace: what the answer has defined, by name.
        name: the function that is called.
        arguments: encoded.
    """
    keeper = Keeper([arguments])

    def ask(request: dict[str, Any]) -> dict[str, Any]:
        with _disable_current_modes(), torch.inference_mode(False):  # the keeper's own are not watched
            return keeper.reply(request)

    link = Link(ask)
    told = serialization.call_answer(namespace, name, [], partial(link.call, 0))
    return merge_outcomes(told, keeper.outcomes.get(0))


def merge_outcomes(told: dict[str, Any], kept: dict[str, Any] | None) -> dict[str, Any]:
    """Return the outcome of a watched call.

    Args:
        told: what the answer's side says: an error, or nothing.
        kept: what the keeper has noted: a value, or that something was refused; None if the call did not end.

    Raises:
        ValueError: if the answer's side says that all went well, and the keeper knows of nothing.
    """
    if not isinstance(told, dict) or not isinstance(kept, (dict, types.NoneType)):
        raise ValueError("outcome: expected dicts")
    if kept is not None and "error" in kept:
        return {**kept, **({"line": told["line"]} if told.get("line") else {})}
    if "error" in told:
        return told
    if kept is None:
        raise ValueError("outcome: a watched call has no value")
    return kept
