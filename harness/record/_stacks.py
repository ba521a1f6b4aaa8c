"""The user's part of a call stack, cheaply: every recorded call asks for it.

What is known about a code object is worked out once: whether its frames belong to torch or to
this package (left out), and where its ``for`` loops begin and end in the bytecode.
"""

from __future__ import annotations

import dis
import os
from types import CodeType, FrameType
from typing import Any

import torch

Loop = tuple[int, int, tuple[str, ...]]
"""Bytecode offsets of a ``for`` loop (first, end) and the names it binds."""

WireFrame = tuple[str, int, str]
"""File, line, function."""

WireStack = tuple[WireFrame, ...]
WireLoops = tuple[tuple[int, tuple[tuple[str, str], ...]], ...]
"""For the frames inside loops: position in the stack, then names and values."""

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_HARNESS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_RUNNER = _HARNESS + "launch" + os.sep
_IN_RANK = (*(_HARNESS + part + os.sep for part in ("record", "mpu", "suites")), _RUNNER)
_LAYOUT = _HARNESS + "layout.py"
_NOT_USERS = (
    "/_pytest/",
    "/typing_extensions.py",
    "_C/",
    "torch/_dynamo",
    "<frozen ",
    "<eval_with_key>",
    "/torchinductor_",
)
_STANDARD = os.path.dirname(os.path.abspath(dis.__file__)) + os.sep

_PASSING_ON = (
    _TORCH + "_ops.py",
    _TORCH + "_compile.py",
    _TORCH + "_library" + os.sep,
    _TORCH + "_dynamo" + os.sep,
    _TORCH + os.path.join("utils", "_python_dispatch.py"),
)
"""torch's files that hand an operator on; the caller is behind them."""

_BELOW = (
    *_IN_RANK,
    *_PASSING_ON,
    _TORCH + os.path.join("distributed", "distributed_c10d.py"),
    _TORCH + os.path.join("distributed", "c10d_logger.py"),
)
"""What lies between an operator and the code that called a function of ``torch.distributed``."""

LONGEST_VALUE = 80
DEEPEST = 64


class _CodeInfo:
    __slots__ = ("calls", "code", "ends", "frames", "loops", "shown")

    def __init__(self, code: CodeType) -> None:
        file = code.co_filename
        self.code = code
        self.ends = file.startswith(_RUNNER)  # beyond it is how the rank came to run the function
        self.calls = not file.startswith(_IN_RANK + _PASSING_ON)
        self.shown = _is_users(file)
        self.loops = _for_loops(code) if self.shown else ()
        self.frames: dict[int, WireFrame] = {}

    def at(self, frame: FrameType) -> WireFrame:
        """The frame as it is sent; which line an instruction is on is worked out once."""
        found = self.frames.get(frame.f_lasti)
        if found is None:
            found = self.code.co_filename, frame.f_lineno, self.code.co_qualname
            self.frames[frame.f_lasti] = found
        return found


# By address, since to hash a code object takes longer than the rest; and by content, since a
# function that is sent to a rank again comes as another object.
_known: dict[int, tuple[CodeType, _CodeInfo]] = {}
_alike: dict[tuple[str, CodeType], _CodeInfo] = {}
_MANY = 4096


def _info(code: CodeType) -> _CodeInfo:
    found = _known.get(id(code))
    if found is not None:
        return found[1]
    if len(_known) >= _MANY:
        _known.clear()
        _alike.clear()
        _sites.clear()
    key = code.co_filename, code
    info = _alike.get(key)
    if info is None:
        info = _alike[key] = _CodeInfo(code)
    _known[id(code)] = code, info
    return info


def _is_users(file: str) -> bool:
    if file.startswith((_TORCH, *_IN_RANK, _LAYOUT)):
        return False
    if file.startswith(_STANDARD) and "site-packages" not in file:
        return False
    return not any(part in file for part in _NOT_USERS)


def _for_loops(code: CodeType) -> tuple[Loop, ...]:
    """Find each ``for`` loop of the bytecode and the plain names that it binds."""
    loops: list[Loop] = []
    instructions = list(dis.get_instructions(code))
    for position, instruction in enumerate(instructions):
        if instruction.opname != "FOR_ITER":
            continue
        names: list[str] = []
        for following in instructions[position + 1 :]:
            name = following.opname
            if name == "STORE_FAST_STORE_FAST":
                names.extend(following.argval)
            elif name == "STORE_FAST_LOAD_FAST":
                names.append(following.argval[0])
                break
            elif name in ("STORE_FAST", "STORE_DEREF", "STORE_NAME", "STORE_GLOBAL"):
                names.append(following.argval)
            elif name not in ("UNPACK_SEQUENCE", "CACHE"):
                break
        loops.append((instruction.offset, instruction.argval, tuple(names)))
    return tuple(loops)


def _loop_values(frame: FrameType, loops: tuple[Loop, ...]) -> tuple[tuple[str, str], ...] | None:
    here = frame.f_lasti
    local: dict[str, Any] | None = None
    values = []
    for first, end, names in loops:
        if first <= here < end:
            local = frame.f_locals if local is None else local
            for name in names:
                value: Any = local.get(name)
                kind = type(value)
                if kind is int:
                    values.append((name, str(value)))
                elif kind is str and len(value) <= LONGEST_VALUE:
                    # A report has a line for it, so what would break that is shown as in source.
                    plain = value.isprintable() and value
                    values.append((name, plain or repr(value)))
    return None if local is None else tuple(values)


def user_stack(frame: FrameType | None) -> tuple[WireStack, WireLoops, CodeType | None]:
    """Walk outwards from ``frame``; innermost user frame first.

    Returns the frames, the loop values, and the code of the innermost frame of all, torch's own
    included: the one that made the call.
    """
    stack: list[WireFrame] = []
    loops: list[tuple[int, tuple[tuple[str, str], ...]]] = []
    caller: CodeType | None = None
    while frame is not None and len(stack) < DEEPEST:
        code = frame.f_code
        info = _info(code)
        if info.ends:
            break
        if caller is None and info.calls:
            caller = code
        if info.shown:
            if info.loops:
                values = _loop_values(frame, info.loops)
                if values is not None:
                    loops.append((len(stack), values))
            stack.append(info.at(frame))
        frame = frame.f_back
    return tuple(stack), tuple(loops), caller


class Site:
    """A place that calls are made from: the code objects and instructions on the way to it.

    ``stack`` is the user's part, ``held`` who holds the work (see `holder`), and ``from_python``
    is False for what the autograd engine calls.
    """

    __slots__ = ("end", "from_python", "held", "path", "stack")

    def __init__(self, frame: FrameType) -> None:
        self.stack, _, caller = user_stack(frame)
        self.held = holder(caller, frame)
        self.from_python = caller is None or caller.co_name != "_engine_run_backward"
        path: list[tuple[CodeType, int, tuple[Loop, ...], int]] = []
        shown = 0
        here: FrameType | None = frame
        while here is not None and shown < DEEPEST:
            info = _info(here.f_code)
            if info.ends:
                break
            path.append((here.f_code, here.f_lasti, info.loops, shown))
            shown += info.shown
            here = here.f_back
        self.path = tuple(path)
        self.end = None if here is None else here.f_code

    def loops_of(self, frame: FrameType | None) -> WireLoops | None:
        """The loop values of a call made from here by ``frame``; None if it is another place."""
        loops: WireLoops = ()
        for code, instruction, around, position in self.path:
            if frame is None or frame.f_code is not code or frame.f_lasti != instruction:
                return None
            if around:
                values = _loop_values(frame, around)
                if values is not None:
                    loops = (*loops, (position, values))
            frame = frame.f_back
        if (None if frame is None else frame.f_code) is not self.end:
            return None
        return loops


_sites: dict[tuple[int, int, int, int], Site] = {}


def call_site(frame: FrameType) -> tuple[Site, WireLoops]:
    """Where ``frame`` makes a call, and the values of the loops around it.

    Programs call from the same few places again and again; such a place is known by its innermost
    frame and the third from there, which is the user's where torch has two, and then compared.
    """
    outer = frame.f_back
    outer = frame if outer is None or outer.f_back is None else outer.f_back
    key = id(frame.f_code), frame.f_lasti, id(outer.f_code), outer.f_lasti
    site = _sites.get(key)
    if site is not None:
        loops = site.loops_of(frame)
        if loops is not None:
            return site, loops
    elif len(_sites) >= _MANY:
        _sites.clear()
    site = _sites[key] = Site(frame)
    return site, site.loops_of(frame) or ()


def holder(caller: CodeType | None, frame: FrameType | None) -> str:
    """Who holds the work of a call that was made below ``frame``.

    ``"work"`` user code, ``"torch"`` Python code of torch's own (``DistributedDataParallel.join``,
    pipelining), ``"tensor"`` a functional collective, ``"native"`` C++.
    """
    if caller is None:
        return "native"
    file = caller.co_filename
    if not file.startswith(_TORCH):
        return "work"
    if file.endswith("distributed_c10d.py"):
        while frame is not None and frame.f_code.co_filename.startswith(_BELOW):
            frame = frame.f_back
        torchs = frame is not None and frame.f_code.co_filename.startswith(_TORCH)
        return "torch" if torchs else "work"
    if file.endswith(("_functional_collectives.py", "_functional_collectives_impl.py")):
        return "tensor"
    return "native"


def is_users(file: str) -> bool:
    """Whether a frame of this file is shown to the user."""
    return _is_users(file)
