"""What each world of a soak is: its shape, its calls, and what is done to it. All from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

KINDS = {
    "healthy": 38,
    "slow": 5,
    "flood": 5,
    "skip": 11,
    "raise": 11,
    "kill": 6,
    "kill_outside": 4,
    "stop": 3,
    "flood_fault": 5,
    "disk_full": 3,
    "disk_full_rank": 3,
    "nofile": 3,
    "nofile_rank": 3,
}
"""Every kind of world, with its share in percent. The first three must pass."""

SHAPES = {
    (1, 1): 8,
    (2, 1): 18,
    (1, 2): 18,
    (2, 2): 16,
    (4, 1): 12,
    (1, 4): 12,
    (3, 1): 14,
    (8, 1): 2,
}
"""The shapes (dp, cp), by weight."""

CALLS = ("all_reduce", "broadcast", "all_gather", "barrier", "p2p")
GROUPS = ("dp", "cp", "dp-cp")
LEAVES = ("", "", "", "thread", "child", "both")

HOW = {
    "skip": ("one", "rest"),
    "raise": (
        "value",
        "own",
        "group",
        "exit",
        "interrupt",
        "memory",
        "assertion",
        "unpicklable",
        "no_text",
        "long",
    ),
    "flood": ("stdout", "stderr", "descriptor", "child"),
    "flood_fault": ("skip", "raise", "kill"),
    "disk_full": ("blocks", "inodes", "both", "gone"),
    "disk_full_rank": ("device", "midway"),
    "nofile_rank": ("raise", "hold", "release"),
}
"""The ways of a kind that has several."""

NO_SERVER = 0.08
"""How often a start without descriptors is also that of the server; another takes seconds."""

WITHOUT_A_DISK = {"disk_full": ("gone",), "disk_full_rank": ("device",)}
"""Those that need no file system of the soak's own."""


@dataclass(frozen=True)
class Op:
    """One call: its name, the group, how many elements, and which member is the root."""

    name: str
    group: str
    size: int
    root: int


@dataclass(frozen=True)
class Case:
    """One world: ``rank`` is done to as ``kind`` and ``how`` say, before its call ``step``."""

    number: int
    kind: str
    how: str
    dp: int
    cp: int
    ops: tuple[Op, ...]
    rank: int
    step: int
    seed: int
    leaves: str

    @property
    def id(self) -> str:
        """The case in the name of its test."""
        how = f"-{self.how}" if self.how else ""
        return f"{self.number:04}-{self.kind}{how}-{self.dp}x{self.cp}"

    @property
    def world_size(self) -> int:
        """How many ranks the world has."""
        return self.dp * self.cp

    @property
    def timeout(self) -> float:
        """The deadline in seconds: far off, but where only the deadline can tell."""
        return 2.0 if self.kind == "stop" else 20.0

    def rng(self, salt: int) -> random.Random:
        """Random numbers of this case, of rank ``salt``."""
        return random.Random(self.seed * 1009 + salt)


def plan(worlds: int, seed: int, *, disk: bool) -> list[Case]:
    """The worlds of a soak, every kind at least once where there are as many.

    ``disk`` says whether the temp directory is a small file system that may be filled up.
    """
    rng = random.Random(seed)
    kinds = list(KINDS)[:worlds]
    kinds += rng.choices(list(KINDS), list(KINDS.values()), k=worlds - len(kinds))
    rng.shuffle(kinds)
    return [_case(number, kind, rng, disk) for number, kind in enumerate(kinds)]


def _case(number: int, kind: str, rng: random.Random, disk: bool) -> Case:
    how = rng.choice(_ways(kind, disk))
    shapes = [shape for shape in SHAPES if shape != (1, 1) or not _needs_others(kind, how)]
    dp, cp = rng.choices(shapes, [SHAPES[shape] for shape in shapes])[0]
    ops = [_op(rng) for _ in range(rng.randint(3, 6))]
    step = rng.randrange(len(ops))
    if _needs_others(kind, how):
        ops[step] = _shared(ops[step], dp, cp)
    if kind == "nofile":
        # What a start needs at least is six for each rank, and two.
        how = "server" if rng.random() < NO_SERVER else str(rng.randint(0, 6 * dp * cp + 1))
    return Case(
        number=number,
        kind=kind,
        how=how,
        dp=dp,
        cp=cp,
        ops=tuple(ops),
        rank=rng.randrange(dp * cp),
        step=step,
        seed=rng.randrange(2**31),
        leaves=rng.choice(LEAVES),
    )


def _ways(kind: str, disk: bool) -> tuple[str, ...]:
    if not disk and kind in WITHOUT_A_DISK:
        return WITHOUT_A_DISK[kind]
    return HOW.get(kind, ("",))


def _needs_others(kind: str, how: str) -> bool:
    return kind == "skip" or (kind, how) == ("flood_fault", "skip")


def _op(rng: random.Random) -> Op:
    size = rng.choice((1, 3, 64, 1000, 20_000))
    return Op(rng.choice(CALLS), rng.choice(GROUPS), size, rng.randrange(8))


def _shared(op: Op, dp: int, cp: int) -> Op:
    """The call on a group that has other members, so that they miss who leaves it out."""
    alone = {"dp": dp == 1, "cp": cp == 1}.get(op.group, False)
    return Op(op.name, "dp-cp" if alone else op.group, op.size, op.root)
