"""The records a rank writes: what the verdict knows, and all that it knows.

A record is written when something *begins* (before the real call is made, since gloo may abort
the process) and when it ends. Ranks are global ranks; times are seconds of the machine's
monotonic clock, comparable between the ranks of one machine.

Nobody changes a record. Those of which there are as many as calls are not frozen all the same: to
make a frozen one takes ten times as long.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, unsafe_hash=True)
class Frame:
    """One frame of the user's code: file, line and function, torch's own frames left out.

    ``loop`` holds the targets of the ``for`` loops around the line, outermost first, as pairs of
    name and value where the value is a small int or str (``(("step", "3"), ("name", "w1"))``):
    they tell apart the passes through a line. ``in_loop`` says that there is such a loop, whatever
    its targets are.

    ``branch`` names the ``if`` statements around the line in its function, outermost first, as
    pairs of the ``if``'s line and the arm (0 its body, 1 its ``else``; an ``elif`` is an ``if`` in
    the ``else`` before it). Lines in different arms of one ``if`` exclude each other in a pass.
    None: not known.
    """

    file: str
    line: int
    function: str
    source: str = ""
    loop: tuple[tuple[str, str], ...] = ()
    branch: tuple[tuple[int, int], ...] | None = None
    in_loop: bool = False


Stack = tuple[Frame, ...]
"""A user call stack, innermost frame first: ``stack[0]`` is the call site."""


@dataclass(slots=True, unsafe_hash=True)
class TensorInfo:
    """What a call was given: dtype (``"float32"``), shape, layout, and which memory.

    ``storage`` is the address of its storage (0: not known), ``version`` its version counter. It
    spans ``extent`` bytes from address ``start``; ``dense`` tells whether its elements fill them.
    Memory that was freed comes again, and so do addresses: ``serial`` numbers the storages that a
    rank has used, each once (0: not known).
    """

    dtype: str
    shape: tuple[int, ...]
    contiguous: bool = True
    storage: int = 0
    version: int = 0
    start: int = 0
    extent: int = 0
    dense: bool = True
    serial: int = 0


@dataclass(frozen=True, slots=True)
class GroupMade:
    """A process group of this rank: named by ``key``, which ranks share through the store.

    ``name`` is Megatron's (``"dp-cp"``), ``"world"`` for the default group, or empty.
    """

    rank: int
    key: str
    ranks: tuple[int, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Creation:
    """A ``new_group``-like call begins: every rank of the world must make it, in the same order.

    ``index`` counts the rank's creations from 0. ``ranks`` is the member list asked for. With
    ``local`` (``use_local_synchronization=True``) only the members have to take part.
    """

    rank: int
    call: int
    thread: int
    index: int
    ranks: tuple[int, ...]
    local: bool
    stack: Stack
    time: float


@dataclass(frozen=True, slots=True)
class Destruction:
    """``destroy_process_group`` begins; ``key`` is empty when all groups go."""

    rank: int
    call: int
    thread: int
    key: str
    stack: Stack
    time: float


@dataclass(slots=True, unsafe_hash=True)
class Call:
    """A collective or point-to-point call begins.

    ``call`` numbers everything the rank begins (calls, creations, destructions), from 0.
    ``index`` counts, from 0, the rank's collectives on this group, or for p2p its sends or
    receives in that (group, src, dst, tag) stream. ``group`` is the key of a `GroupMade`.
    ``root`` and ``peer`` are global ranks; a receive from any source has ``peer`` None.
    ``thread`` is 0 for the main thread. ``from_python`` is False for calls that C++ made on its
    own, such as DDP's reducer during backward. ``during`` is the exception under way as the call
    was made (``"ValueError: bad row"``), so in an ``except`` or ``finally`` block;
    ``raised_at`` is the user's frame that it came out of, where that is known. ``held`` says who
    waits for an async call: ``"work"`` user code that holds its work, ``"tensor"`` user code that
    holds a functional collective's result, ``"torch"`` torch's own Python, ``"native"`` C++.
    """

    rank: int
    call: int
    thread: int
    group: str
    index: int
    op: str
    reduce_op: str | None
    root: int | None
    peer: int | None
    tag: int | None
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    input_splits: tuple[int, ...] | None
    output_splits: tuple[int, ...] | None
    async_op: bool | None
    stack: Stack
    time: float
    from_python: bool = True
    label: str | None = None
    during: str = ""
    held: str = "work"
    raised_at: Stack = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """A thread of the rank now blocks until its call number ``call`` is complete."""

    rank: int
    call: int
    thread: int
    stack: Stack
    time: float


@dataclass(slots=True, unsafe_hash=True)
class Finished:
    """The wait for ``call`` (or the whole of a call that blocks as it is made) is over."""

    rank: int
    call: int
    thread: int
    time: float


@dataclass(frozen=True, slots=True)
class Issued:
    """The call returned to user code with its work still under way: the thread is free again.

    Our recorder leaves it out, as ``async_op`` says the same; another source of records may not.
    """

    rank: int
    call: int
    thread: int
    time: float


@dataclass(frozen=True, slots=True)
class Failed:
    """A call, or the wait for it, raised: the thread is back in user code with that error."""

    rank: int
    call: int
    thread: int
    error: str
    message: str
    time: float


@dataclass(frozen=True, slots=True)
class Touched:
    """User code used a buffer of call number ``call`` while that call was under way.

    ``how`` is ``"written"``, ``"read"`` or ``"resized"``; ``by`` names the operation, where known.
    """

    rank: int
    call: int
    thread: int
    how: str
    by: str
    stack: Stack
    time: float


@dataclass(frozen=True, slots=True)
class NonMember:
    """A call of ``op`` on a group that this rank is not in: torch makes it a silent no-op."""

    rank: int
    call: int
    thread: int
    op: str
    stack: Stack
    time: float


@dataclass(frozen=True, slots=True)
class Value:
    """A value that user code had checked: ``harness.expect``, ``expect_same``, ``unchanged``.

    ``kind`` is that function's name. For ``expect`` and ``unchanged`` ``wrong`` says how it
    differs (empty: it does not). For ``expect_same`` ``digest`` stands for the value, shown as
    ``text``, and all ranks of the grid's group ``over`` must have the same.
    """

    rank: int
    call: int
    thread: int
    kind: str
    name: str
    over: str
    digest: str
    text: str
    wrong: str
    stack: Stack
    time: float


@dataclass(frozen=True, slots=True)
class NativeWait:
    """The rank's main thread was found blocked inside C++ (seen from outside, never guessed).

    Its Python stack ends in torch, its CPU time stands still and works of its own are under way:
    DDP's reducer waiting in ``.backward()``. ``stack`` is the user's part of it.
    """

    rank: int
    stack: Stack
    time: float


@dataclass(frozen=True, slots=True)
class ThreadEnded:
    """A thread of the rank that has made calls, not the main one, is over."""

    rank: int
    thread: int
    time: float


@dataclass(frozen=True, slots=True)
class Started:
    """The rank enters the user's function."""

    rank: int
    time: float


@dataclass(frozen=True, slots=True)
class Ended:
    """The rank left the user's function, or its process is gone.

    ``how`` is ``"returned"``, ``"raised"``, ``"skipped"``, ``"xfailed"``, ``"failed"``
    (``pytest.fail``) or ``"died"``. ``error`` is the exception's type name and ``message`` its
    text, or what ended the process (``"exit code 3"``, ``"SIGSEGV"``). ``inside`` is the number of
    the call that raised this exception, when it came out of a collective or its wait.
    ``threads`` are the numbers of the user's threads that still run.
    """

    rank: int
    how: str
    time: float
    error: str = ""
    message: str = ""
    traceback: str = ""
    stack: Stack = ()
    inside: int | None = None
    threads: tuple[int, ...] = ()


Record = (
    GroupMade
    | Creation
    | Destruction
    | Call
    | Waiting
    | Issued
    | Finished
    | Failed
    | Touched
    | NonMember
    | Value
    | NativeWait
    | ThreadEnded
    | Started
    | Ended
)

P2P_OPS = frozenset({"send", "recv"})
ROOTED_OPS = frozenset({"broadcast", "reduce", "gather", "scatter"})
