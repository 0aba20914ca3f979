"""Let Triton's own compiler read a kernel, in a process where Triton is an interpreter.

The front end turns a kernel's text into Triton's intermediate code, for which it needs no GPU. It works on
functions of the compiler's kind, and here all are of the interpreter's, so they are exchanged meanwhile. Like
serialization.py this file imports nothing of ours.
"""

import ast
import inspect
import io
import linecache
import re
import sys
import textwrap
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from functools import cache
from typing import Any, NamedTuple

import torch

TARGET = ("cuda", 80, 32)  # nothing is run on it; one that takes blocks of memory apart into addresses
TYPES = {torch.float16: "*fp16", torch.float32: "*fp32", torch.float64: "*fp64"}
TYPES |= {torch.int32: "*i32", torch.int64: "*i64"}
MANGLED = re.compile(r"answer\.\S+")  # the name of a function that is not made yet
REPRESENTED = re.compile(r"^\w+\((['\"])(.*)\1\)$")  # an exception, as in NameError('x')
# What the intermediate code of a kernel may be made of as it is read: that of which kernel_machine.py knows
# what a GPU makes of it. What is not here is refused.
OPERATIONS = {
    "tt": "func call return print assert get_program_id get_num_programs load store addptr make_range splat "
    "unsplat broadcast expand_dims reshape trans join split dot reduce reduce.return scan scan.return "
    "precise_divf precise_sqrt make_tensor_ptr advance bitcast",
    "arith": "constant addi subi muli divsi remsi andi ori xori shli shrsi minsi maxsi cmpi extsi extui "
    "trunci addf subf mulf divf maxnumf minnumf maximumf minimumf cmpf extf truncf sitofp uitofp "
    "fptosi select bitcast",
    "math": "exp exp2 log log2 sqrt rsqrt sin cos erf absf absi floor ceil fma",
    "scf": "for while if yield condition",
    "cf": "br cond_br",
    "llvm": "intr.assume",
    "ttg": "barrier",
    "gpu": "barrier",  # before Triton 3.7
    "ub": "poison",  # what has no value: a loop's variable after it, what a function without `return` gives
}
KNOWN = {f"{dialect}.{name}" for dialect, names in OPERATIONS.items() for name in names.split()}
# a text in quotes: of a place, of a name, the name of an operation with regions, or one that the kernel has
QUOTED = re.compile(r'(loc\(|callsite\(|at |@)?"((?:[^"\\]|\\.)*)"(\()?')
PROMISE = re.compile(r"^.*\btt\.(?:divisibility|contiguity|constancy).*$", re.MULTILINE)
OPERATION = re.compile(r"^ *(?:%[^=]+ = )?\"?([a-z]\w*\.[a-z][\w.]*)(.*)$", re.MULTILINE)
# what of known operations is refused: unsigned numbers, those of few bits, others in their bits, and what
# the later passes of the compiler have no code for
NOT_KNOWN = {
    re.compile(r"arith\.(addi|subi) .* : (tensor<(\d+x)+)?i1\b"): "a sum of truth values (write `|` or `&`)",
    re.compile(
        r"arith\.cmpi u|arith\.(extui|uitofp) .* : (tensor<(\d+x)+)?i(?!1\b)"
    ): "numbers without a sign (a sum of truth values is one; before it write `.to(tl.int32)`)",
    re.compile(r"""(?:(?<=\dx)|(?<![\w@%".$#!]))(?:bf16|f8E\w+|i8|i16)\b"""): "numbers in {}",
    re.compile(r"(arith\.divf|tt\.precise_divf) .*f16\b"): "`tl.fdiv` of float16",
    re.compile(r"(tt|arith)\.bitcast .*!tt\.ptr"): "addresses that are taken for those of other numbers",
    re.compile(
        r"tt\.(load|store) .*(cacheModifier.*(evictionPolicy|isVolatile)|evictionPolicy.*isVolatile)"
    ): "two of `cache_modifier`, `eviction_policy` and `volatile` at once",
}
UNBUILT = {
    re.compile(r"tt\.warp_specialize"): "a loop with `warp_specialize`",
    re.compile(r"\}\) : \(.*!tt\.ptr"): "a reduction or a scan of addresses",
}
IN_TRITON = re.compile(r"[\\/]triton[\\/]language[\\/]")
LOCATION = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)  # what a place in the code stands for
COMBINED = re.compile(r'"tt\.(?:reduce|scan)"(.*?)tt\.(?:reduce|scan)\.return', re.DOTALL)
# what no GPU has code for in there: branches, loops, and tiles
UNCOMBINED = re.compile(r'scf\.|cf\.|tensor<|"tt\.(?:reduce|scan)"|\w+\.barrier')
# nor for these in functions that it calls there, which may have branches and loops
UNCALLED = re.compile(r'tensor<|"tt\.(?:reduce|scan)"|\w+\.barrier')
FUNCTION = re.compile(r"tt\.func \w+ @([^\s(]+)(.*?)^  }", re.DOTALL | re.MULTILINE)
CALL = re.compile(r"tt\.call @([^\s(]+)\(")
WHAT_INSTEAD = {
    True: ("tiles or barriers", "it takes numbers"),
    False: ("branches or loops", "there are `tl.where` and `tl.maximum`"),
}
COUNTS = ("i32", "i64")  # what an argument that counts may be declared as
OPTIONS = ("noinline", "do_not_specialize")  # of ``triton.jit``
# what to say instead of words of the compiler
ADVICE = {
    "constexpr[Ellipsis]": "has `...` in an index; write `:` for each axis, as in `x[:, :, None]`",
    # as in `triton.cdiv(n, 16)`, if n is known at run time alone, or `exp(x)`
    "_semantic": "a function has a name that is not exchanged; write it as one of `tl`, such as `tl.cdiv`",
    "Boolean value of Tensor": "takes a tile as one truth value, in `if`, `and`, `or`, `not`, `min` or "
    "`max`; for tiles there are `tl.where`, `&`, `|`, `~`, `tl.minimum` and `tl.maximum`",
    "unsupported tensor index": "picks entries of a tile, which no program can; a sum over a mask with one "
    "entry left does: `tl.sum(tl.where(i == r, x, 0.0), 0)`",
    "PassManager::run failed": "a pass of the compiler fails on it, as on a block pointer that `while` moves",
    "is not string": 'prints a number without a text before it; write `print("x", x)`',
    "shape[-1]) == 2": "`tl.split` takes tiles whose last axis is of length 2",
    "dim < len(block_shape)": "`boundary_check` names an axis that the tile does not have",
    "error encountered during parsing": "has a tile of a type that does not fit; a mask, for one, has truth "
    "values such as `i < n`",
}
# where the compiler computes with what only a program knows, as in `tl.program_id(n)`
NO_CONSTANT = "takes what a program computes where it needs a constant, such as an axis"
# what Python says of values that some function was not made for
INTERNAL = re.compile("object (?:'.*' )?has no attribute|not supported between|is not iterable")
KNOWN_VERSIONS = "versions 3.6 and 3.7 are"
_PRISTINE: list[tuple[Any, dict[str, Any]]] = []  # modules and classes of Triton's language, as they were


class Refused(TypeError):
    """Say that a kernel is compiled, and that nobody here knows what a GPU would make of it."""


class Reading(NamedTuple):
    """Hold what the compiler makes of a kernel.

    Args:
        code: the intermediate code, see ``kernel_code.read``; a text has its number in its place.
        texts: what stood there, by these numbers.
        arguments: the names of those that it takes; of the others the compiler has made constants.
    """

    code: str
    texts: list[str]
    arguments: list[str]


def read(kernel: Any, arguments: Mapping[str, Any]) -> Reading:
    """Let the compiler read a kernel and what it calls.

    Args:
        kernel: a function under ``triton.jit``, of the interpreter's kind.
        arguments: of a launch, by name.

    Raises:
        NotImplementedError: if the kernel says that it is not written yet.
        TypeError: if the compiler refuses it, or nobody here knows what a GPU makes of it.
        RuntimeError: if this version of Triton is built in another way.
    """
    remember()
    _refuse_debug(kernel)
    with _compilers_language(_list_globals(kernel.fn)), warnings.catch_warnings(action="ignore"):
        if not _works():
            version = sys.modules["triton"].__version__
            raise RuntimeError(f"Triton {version} is not known here; {KNOWN_VERSIONS}")
        compiled = _compile_function(kernel)
        try:
            with redirect_stdout(io.StringIO()):  # where it prints wrong kernels
                return _Front().read(compiled, arguments)
        except Refused:
            raise
        except Exception as error:
            reason = _describe(error)
        if _is_unwritten(kernel.fn):
            raise NotImplementedError
        raise TypeError(f"is not compiled by Triton: {reason}")


def _is_unwritten(function: Any) -> bool:
    """Return whether a kernel raises `NotImplementedError`, as an empty answer does."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    raised = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    return any("NotImplementedError" in ast.unparse(node) for node in raised)


def list_ones(kernel: Any, arguments: Mapping[str, Any]) -> list[str]:
    """Return the names of the arguments of which Triton makes constants because they are 1."""
    params = [one for one in _compile_function(kernel).params if not one.is_constexpr]
    return [one.name for one in params if _becomes_constant(one, arguments[one.name])]


@cache
def _works() -> bool:
    """Return whether the front end is built as we know it, so that what it refuses is the kernel's fault."""
    from triton.runtime.jit import JITFunction

    try:
        _Front().read(JITFunction(_go_on), {"x": torch.zeros(1), "n": 2, "TILE": 2})
    except Exception:  # another version of Triton
        return False
    return True


def describe_options(kernel: Any) -> dict[str, Any]:
    """Return as plain data what the compiler is told of a function besides its text: types, and options."""
    from triton.runtime.jit import JITFunction

    _refuse_debug(kernel)
    options = _list_options(kernel)
    kinds = {one.name: one.annotation for one in JITFunction(kernel.fn).params}
    return {"kinds": {name: kind for name, kind in kinds.items() if _is_declared(kind)}, **options}


def _list_options(kernel: Any) -> dict[str, Any]:
    """Return the options of ``triton.jit`` that a function has."""
    options = {name: kernel.kwargs.get(name) for name in OPTIONS}
    return {name: sorted(x, key=str) if isinstance(x, set) else x for name, x in options.items()}


def _refuse_debug(kernel: Any) -> None:
    """Refuse a function that is to be compiled with what looks for errors, which stop a GPU."""
    if kernel.kwargs.get("debug"):
        raise TypeError("is under `triton.jit(debug=True)`, which is for a GPU; leave `debug` out")


def _is_declared(kind: str) -> bool:
    """Return whether an annotation means something to the compiler."""
    from triton.runtime.jit import type_canonicalisation_dict as types

    return "const" in kind or kind.removeprefix("*k").removeprefix("*") in types.values()


def _go_on(x, n, TILE: "constexpr"):  # type: ignore  # Triton reads annotations
    """Be a kernel that every version of Triton compiles."""
    x += n + TILE


# --- the front end ------------------------------------------------------------------------------------------


class _Front:
    """Hold the parts of Triton's compiler that come before the code for a GPU."""

    def __init__(self) -> None:
        from triton._C.libtriton import ir
        from triton.backends.compiler import GPUTarget
        from triton.compiler.compiler import ASTSource, make_backend

        self._source, self._target = ASTSource, GPUTarget(*TARGET)
        self._backend = make_backend(self._target)
        self._options = self._backend.parse_options({})
        self._context = ir.context()
        ir.load_dialects(self._context)
        self._backend.load_dialects(self._context)
        self._codegen = self._backend.get_codegen_implementation(self._options)
        self._modules = self._backend.get_module_map()
        _ = ASTSource.make_ir

    def read(self, compiled: Any, arguments: Mapping[str, Any]) -> Reading:
        """Return what the compiler makes of a kernel; what it refuses raises.

        Args:
            compiled: the kernel, of the compiler's kind.
            arguments: see ``read``.
        """
        kinds, constants = {}, {}
        for number, one in enumerate(compiled.params):
            value, kinds[one.name] = arguments[one.name], _find_kind(one, arguments[one.name])
            if kinds[one.name] == "constexpr":
                constants[(number,)] = value
        source = self._source(compiled, kinds, constants)
        made = source.make_ir(self._target, self._options, self._codegen, self._modules, self._context)
        _refuse_foreign(hide_texts(str(made))[0])
        code, texts = hide_texts(str(self._backend.make_ttir(made, {}, self._options, TARGET[1])))
        _refuse_branches(code)
        return Reading(code, texts, [name for name, kind in kinds.items() if kind != "constexpr"])


def hide_texts(code: str) -> tuple[str, list[str]]:
    """Return intermediate code without texts of the kernel, so that none is read as code; and these texts.

    Names of functions are such texts: Triton writes constants of a call into them.

    Args:
        code: as the compiler prints it, with no quotes in a text.
    """
    texts: list[str] = []

    def hide(found: re.Match[str]) -> str:
        before, text, bracket = found[1] or "", found[2], found[3] or ""
        if before not in ("", "@") or (bracket and not before):  # a place, or an operation
            return found[0]
        if text not in texts:
            texts.append(text)
        number = texts.index(text)
        return f"@!{number}{bracket}" if before else f'"{number}"{bracket}'

    return QUOTED.sub(hide, code), texts


def _refuse_foreign(code: str) -> None:
    """Refuse what compiles, and of which nobody here can say what a GPU would make of it.

    Args:
        code: the intermediate code.

    Raises:
        Refused: for an operation, a type or an option that is not known here.
    """
    for pattern, name in UNBUILT.items():
        if pattern.search(code):
            raise Refused(f"has {name}, which compiles on few GPUs if on any")
    if promise := PROMISE.search(code):
        raise Refused(
            "promises something of numbers, as `tl.multiple_of` and `tl.max_contiguous` do, and a GPU would "
            f"believe it; leave it out{_find_line(code, promise[0])}"
        )
    for found in OPERATION.finditer(code):
        operation = found[0].partition(" loc(")[0].strip()
        refused = ((name, pattern.search(operation)) for pattern, name in NOT_KNOWN.items())
        what = next((name.format(one[0]) for name, one in refused if one), None)
        if found[1].startswith("tt.atomic"):
            raise Refused(
                "atomic operations add in an order that differs from run to run, and so do the last digits; "
                f"do without{_find_line(code, found[0])}"
            )
        if found[1] == "tt.make_tensor_descriptor":
            raise Refused(
                "makes a tensor descriptor, for which a launch must lend memory, and strides be multiples "
                f"of 16 bytes; use addresses or `tl.make_block_ptr`{_find_line(code, found[0])}"
            )
        if found[1] not in KNOWN:
            what = f"the operation `{found[1]}`"
        if what:
            raise Refused(
                f"has {what}, which is not followed here as a GPU has it; do without"
                f"{_find_line(code, found[0])}"
            )


def _find_line(code: str, operation: str) -> str:
    """Return in which line of a kernel an operation has its origin, in words."""
    place = find_place(code, operation)
    return f", in `{linecache.getline(*place).strip()}`" if place else ""


def find_place(code: str, operation: str) -> tuple[str, int] | None:
    """Return file and number of the line of a kernel in which an operation has its origin, if it has one.

    Of what a function computes that the kernel calls this is the line of the function, unless it is Triton's.

    Args:
        code: the intermediate code, which says at its ends what places stand for.
        operation: its line in the code.
    """
    known = dict(LOCATION.findall(code))
    pending, seen = [operation[operation.rfind(" loc(") :]], set[str]()
    while pending:  # from a name to what is named, and from there to the file; a caller comes last
        named = []
        for file, number, name in re.findall(r'"([^"]+)":(\d+)|(#loc\d*)', pending.pop(0)):
            if file and not IN_TRITON.search(file):
                return file, int(number)
            if name and name not in seen:
                seen.add(name)
                named.append(known.get(name, ""))
        pending[:0] = named
    return None


def _refuse_branches(code: str) -> None:
    """Refuse a function of a reduction or a scan in which branches, loops or tiles are left.

    Args:
        code: the intermediate code, in which calls and what is known are resolved; calls of functions that
            return early, or stand apart by ``noinline``, are left.

    Raises:
        Refused: if there is one; no GPU has code for it, or none that keeps entries apart.
    """
    functions = {found[1]: found for found in FUNCTION.finditer(code)}
    for part in COMBINED.finditer(code):
        wrong, called = UNCOMBINED.search(code, *part.span(1)), list(dict.fromkeys(CALL.findall(part[1])))
        for name in called:  # it grows meanwhile
            wrong = wrong or UNCALLED.search(code, *functions[name].span(2))
            called += [one for one in dict.fromkeys(CALL.findall(functions[name][2])) if one not in called]
        if wrong:
            what, instead = WHAT_INSTEAD[UNCALLED.fullmatch(wrong[0]) is not None]
            place = next(line for line in code[wrong.start() :].splitlines() if " loc(" in line)
            raise Refused(
                f"has {what} in what `tl.reduce` or a scan combines by; {instead}{_find_line(code, place)}"
            )


def _becomes_constant(one: Any, value: Any) -> bool:
    """Return whether Triton makes a constant of an argument because it is 1."""
    return type(value) is int and value == 1 and not one.annotation_type and not one.do_not_specialize


def _find_kind(one: Any, value: Any) -> str:
    """Return what the compiler takes an argument for: by its annotation, or by its value.

    Raises:
        TypeError: if it is declared as what is not given.
    """
    if one.is_constexpr and isinstance(value, torch.Tensor):
        raise TypeError(f"`{one.name}` is declared as constexpr, and it is a tensor")
    if one.is_constexpr or value is None:
        return "constexpr"
    whole = isinstance(value, int) and not isinstance(value, torch.Tensor)
    given = TYPES[value.dtype] if isinstance(value, torch.Tensor) else "i32" if whole else "fp32"
    declared = one.annotation_type
    if declared and declared.replace("*k", "*") != given and not (whole and declared in COUNTS):
        raise TypeError(
            f"`{one.name}` is declared as {declared}, which Triton takes it for, and it is {given}"
        )
    if _becomes_constant(one, value):
        return "constexpr"
    return given.replace("*", "*k") if one.is_const else declared or given


def remember() -> None:
    """Note what Triton's language is before the interpreter changes it, as it does, at times for good."""
    if not _PRISTINE and "triton.language" in sys.modules:
        import triton.language as tl

        if not tl.core.load.__code__.co_filename.endswith("interpreter.py"):
            _PRISTINE.extend(_list_spaces())


def _list_spaces() -> list[tuple[Any, dict[str, Any]]]:
    """Return the modules and classes in which the interpreter exchanges functions, and what they have now."""
    import triton.language as tl

    modules = [one for name, one in sys.modules.items() if name.startswith("triton.language") and one]
    return [(one, dict(vars(one))) for one in (*modules, tl.core.tensor, tl.core.tensor_descriptor_base)]


def _put_back(spaces: list[tuple[Any, dict[str, Any]]]) -> None:
    """Give modules and classes the contents that were noted."""
    for space, noted in spaces:
        for name, value in list(vars(space).items()):
            if name not in noted:
                delattr(space, name)
            elif value is not noted[name]:
                setattr(space, name, noted[name])
        for name in noted.keys() - vars(space).keys():
            setattr(space, name, noted[name])


def _list_globals(function: Any) -> list[dict[str, Any]]:
    """Return the global names of a kernel, and of the functions under ``triton.jit`` that it may call."""
    from triton.runtime.interpreter import InterpretedFunction

    found = [function.__globals__]
    for names in found:  # it grows meanwhile
        for value in list(names.values()):
            own = isinstance(value, InterpretedFunction) and not value.fn.__module__.startswith("triton.")
            if own and all(value.fn.__globals__ is not one for one in found):
                found.append(value.fn.__globals__)
    return found


@contextmanager
def _compilers_language(spaces: list[dict[str, Any]]) -> Iterator[None]:
    """While the block runs, Triton's language is the compiler's, as are functions under ``triton.jit``.

    Args:
        spaces: the global names of a kernel, and of what it calls.
    """
    import triton
    import triton.language as tl
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    now = _list_spaces()
    own = [{name: x for name, x in one.items() if isinstance(x, InterpretedFunction)} for one in spaces]
    made: dict[Any, Any] = {}
    _put_back(_PRISTINE)
    runtime = getattr(getattr(triton, "knobs", None), "runtime", None)
    interprets = getattr(runtime, "interpret", None)
    try:
        if runtime is not None:
            runtime.interpret = False
        for space, _ in _PRISTINE:
            for name, value in list(vars(space).items()):
                if isinstance(value, InterpretedFunction):
                    setattr(space, name, made.setdefault(value.fn, JITFunction(value.fn)))
        for name, value in vars(sys.modules["triton.language.standard"]).items():
            if isinstance(value, JITFunction) and name in vars(tl.core.tensor):  # methods, as in `x.sum()`
                setattr(tl.core.tensor, name, value)
        for names, functions in zip(spaces, own, strict=True):
            names.update({name: made.setdefault(x.fn, _compile_function(x)) for name, x in functions.items()})
        yield
    finally:
        if runtime is not None:
            runtime.interpret = interprets
        for names, functions in zip(spaces, own, strict=True):
            names.update(functions)
        _put_back(now)


def _compile_function(kernel: Any) -> Any:
    """Return a function of the interpreter's kind as one of the compiler's, with its options."""
    from triton.runtime.jit import JITFunction

    return JITFunction(kernel.fn, **_list_options(kernel))


def _describe(error: Exception) -> str:
    """Return what is wrong, and the line of the kernel; what is Triton's own is not shown."""
    own = error
    while error.__cause__ is not None and getattr(error.__cause__, "src", None):  # in a function it calls
        error = error.__cause__  # type: ignore[assignment]
        own = own if _is_of_triton(getattr(error, "src", None)) else error
    source, node = getattr(own, "src", None), getattr(own, "node", None)
    lines = source.splitlines() if isinstance(source, str) else []
    number = getattr(node, "lineno", 0)
    line = f"`{lines[number - 1].strip()}`" if 0 < number <= len(lines) else ""
    reason = _find_reason(error, known=bool(line))
    if line and (not reason or INTERNAL.search(reason)):
        return f"its compiler cannot take {line}" + (f" ({reason[:200]})" if reason else "")
    return f"{reason[:200]}, in {line}" if line else reason[:200]


def _find_reason(error: Exception, known: bool) -> str:
    """Return what is wrong; "" if nobody says it.

    Args:
        error: of the compiler.
        known: whether a line is known; if not, something is said in any case.
    """
    cause = error.__cause__
    text = [] if known else [*reversed(str(error).strip().splitlines()), type(error).__name__]
    failed = traceback.extract_tb(cause.__traceback__)[-1].line if isinstance(cause, AssertionError) else None
    said = [getattr(error, "error_message", None), cause, *text, failed]
    reasons = [str(one).strip().splitlines()[0] for one in said if one and str(one).strip(" ^\n")]
    reason = REPRESENTED.sub(r"\2", reasons[0] if reasons else "")
    if "_semantic" in reason and cause is not None and _is_raised_in_triton(cause):
        return NO_CONSTANT
    reason = next((advice for words, advice in ADVICE.items() if words in reason), reason)
    return "a function calls itself" if MANGLED.fullmatch(reason) else reason


def _is_raised_in_triton(error: BaseException) -> bool:
    """Return whether a function of Triton's language has called what raised an error."""
    frames = traceback.extract_tb(error.__traceback__)
    return len(frames) > 1 and IN_TRITON.search(frames[-2].filename) is not None


def _is_of_triton(source: Any) -> bool:
    """Return whether this is the text of a function of Triton's language."""
    from triton.runtime.jit import JITFunction

    functions = (one for space, _ in _PRISTINE for one in vars(space).values())
    return any(isinstance(one, JITFunction) and one.src == source for one in functions)
