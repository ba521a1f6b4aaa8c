"""From records to the whole text of a report: the texts are part of the product."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.report import render

from .program import (
    Program,
    ar,
    barrier,
    call,
    compute,
    ends,
    fails,
    new_group,
    program,
    raises,
    recv,
    send,
    verdict,
)

GOLDEN = Path(__file__).parents[1] / "report" / "golden"

WHITEN = "rl/loss.py:41 in masked_whiten < rl/train.py:88 in step [batch=2] < test_rl.py:12 in main"
LINES = {
    ("rl/loss.py", 41): "dist.all_reduce(stats, group=group)",
    ("rl/loss.py", 44): "dist.barrier(group=group)",
    ("rl/train.py", 88): "advantages = masked_whiten(rewards, mask)",
    ("rl/train.py", 90): "wait_for_all()",
    ("rl/ckpt.py", 5): "dist.barrier()",
    ("rl/ckpt.py", 9): "dist.barrier()",
    ("rl/data.py", 12): "raise ValueError(f'bad row {row}')",
    ("test_rl.py", 12): "step(rank)",
    ("test_rl.py", 20): "save(model)",
    ("test_rl.py", 21): "finalize(model)",
}

TWO = {"dp-cp": (0, 1), "pp": (0, 1)}


def skip() -> Program:
    """A whitening helper that rank 1 does not enter."""
    start, whiten = ar("rl/loss.py:40 in masked_whiten", group="dp-cp"), ar(WHITEN, group="dp-cp")
    return program([start, whiten], [start], groups=TWO)


def shifted() -> Program:
    """R01: the save barrier pairs with another rank's finalize barrier."""
    save = barrier("rl/ckpt.py:5 in save < test_rl.py:20 {19.0}")
    finalize = barrier("rl/ckpt.py:9 in finalize < test_rl.py:21")
    return program([save, finalize], [finalize])


def many_ranks() -> Program:
    """Two of 64 ranks leave a barrier out."""
    end = barrier("rl/loss.py:44 in sync < rl/train.py:90 in step < test_rl.py:12")
    return program(*[[] if rank in (5, 17) else [end] for rank in range(64)])


def connection_closed() -> Program:
    """An exception on rank 1; rank 0's call fails for it."""
    message = "[../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4242"
    lost = raises("RuntimeError", message, "rl/loss.py:44 in sync < test_rl.py:12", inside=True)
    wait = barrier("rl/loss.py:44 in sync < test_rl.py:12")
    bad = raises("ValueError", "bad row 7", "rl/data.py:12 in load < test_rl.py:12")
    return program([wait, fails("RuntimeError", message), lost], [bad])


def reduce_ops() -> Program:
    """SUM on three ranks, MAX on one."""
    steps = [ar(WHITEN, "MAX" if rank == 2 else "SUM") for rank in range(4)]
    return program(*[[step] for step in steps])


def operations() -> Program:
    """Two operations meet."""
    gather = call("all_gather", "rl/loss.py:41 in status < test_rl.py:12 {11.0}")
    return program([gather, barrier("rl/loss.py:44")], [barrier("rl/loss.py:44")])


def two_groups() -> Program:
    """The groups dp-cp and pp are entered crosswise."""
    a, b = ar("rl/loss.py:41 {40.0}", group="dp-cp"), ar("rl/loss.py:44 {40.1}", group="pp")
    return program([a], [b], groups=TWO)


def creation() -> Program:
    """Members only make a group."""
    make = new_group("rl/groups.py:3 in build < test_rl.py:12 {11.0}", [0, 1])
    return program([make], [make], [], [])


def messages() -> Program:
    """Head to head sends."""
    return program(
        [send(1, "rl/pp.py:7"), recv(1, "rl/pp.py:8")],
        [send(0, "rl/pp.py:7"), recv(0, "rl/pp.py:8")],
    )


def exit_code() -> Program:
    """Rank 1 leaves by os._exit."""
    return program([ar(WHITEN)], [ends("died", "exit code 3")])


def shapes() -> Program:
    """As many elements in another shape: a warning."""
    a, b = (ar("rl/loss.py:41", shape=shape) for shape in ((2, 3), (3, 2)))
    return program([a], [b])


def apart() -> Program:
    """Two faults that have nothing to do with each other."""
    groups = {"dp": (0, 1), "cp": (2, 3)}
    a, b = ar("rl/loss.py:41", group="dp"), barrier("rl/loss.py:44", group="cp")
    return program([a], [], [b], [], groups=groups)


PROGRAMS: dict[str, Callable[[], Program]] = {
    "skip": skip,
    "shifted": shifted,
    "many_ranks": many_ranks,
    "connection_closed": connection_closed,
    "reduce_ops": reduce_ops,
    "operations": operations,
    "two_groups": two_groups,
    "creation": creation,
    "messages": messages,
    "exit_code": exit_code,
    "shapes": shapes,
    "apart": apart,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_text_of_a_report(name: str) -> None:
    """Records in, the whole text out, as the golden file has it."""
    compare(name, PROGRAMS[name]())


def test_the_text_at_a_deadline() -> None:
    """A straggler with the rank that waits for it."""
    run = program([barrier("rl/loss.py:44")], [compute()])
    compare("straggler", run, deadline=True)


def compare(name: str, run: Program, deadline: bool = False) -> None:
    """Render the verdict of a program and hold it against its golden file."""
    text = render(verdict(run, deadline=deadline), source=lambda f, n: LINES.get((f, n), ""))
    golden = GOLDEN / f"{name}.txt"
    assert golden.is_file(), f"{golden} is missing; it would hold:\n{text}"
    assert golden.read_text(encoding="utf-8") == f"{text}\n"
