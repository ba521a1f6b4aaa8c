"""--world-pdb: Python's debugger on one rank, in the terminal of a real pytest session."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import pytest

pexpect = pytest.importorskip("pexpect")

# pytester drops the first, empty line.
PROGRAM = """
import pdb
from pdb import set_trace
import pytest

def slow(seconds):
    import time
    time.sleep(seconds)

def total(rank):
    import torch, torch.distributed as dist
    value = torch.ones(1) * (rank + 1)
    print("printed before")
    breakpoint()
    value = value * 10
    print("printed between")
    dist.all_reduce(value)
    return value.item()

def loop(rank, how=slow):
    import os
    for i in range(2):
        pdb.set_trace(header=f"round {i}")
    return os.getpid()

def ends(rank):
    set_trace()
    return rank

def raises(rank):
    import torch, torch.distributed as dist
    value = 40 + rank
    if rank == 1:
        assert value == 40
    dist.all_reduce(torch.ones(1))

def other_raises(rank):
    if rank == 0:
        raise KeyError("the other")
    breakpoint()

def skipped(rank):
    import torch, torch.distributed as dist
    if rank == 1:
        breakpoint()
        dist.all_reduce(torch.ones(1))
        print("never here")

def torchs(rank):
    import torch.distributed as dist
    dist.breakpoint(rank=1)
    return rank

def left_out(rank):
    if rank == 1:
        pytest.skip("not here")
"""

PROMPT = r"\(rank 1 Pdb\) "


class _Terminal:
    """A pytest session in a terminal of its own, and who sits in front of it."""

    def __init__(self, child: Any) -> None:
        self._child = child
        self.said = ""

    def expect(self, pattern: Any = PROMPT) -> str:
        """What is shown until ``pattern`` comes."""
        self._child.expect(pattern)
        text: str = self._child.before.decode().replace("\r\n", "\n")
        self.said += text + self._child.after.decode() if pattern is not pexpect.EOF else text
        return text

    def type(self, line: str, pattern: Any = PROMPT) -> str:
        """Type a line; what comes after it, without the line itself."""
        self._child.sendline(line)
        return self.expect(pattern).partition("\n")[2]

    def past_the_call(self) -> str:
        """From 3.13 on the debugger stops at the call that opens it, before at the next line."""
        return self.type("n") if sys.version_info >= (3, 13) else ""

    def ctrl(self, key: str) -> None:
        """Press a key together with Ctrl."""
        self._child.sendcontrol(key)

    def ends(self) -> int:
        """The exit status, once the session is over."""
        self.expect(pexpect.EOF)
        self._child.close()
        status: int = self._child.exitstatus
        return status


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A session of its own, in a process of its own, on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.setenv("TERM", "dumb")
    pytester.makeini("[pytest]\naddopts = --strict-markers --strict-config -p no:cacheprovider")
    return pytester


def _terminal(session: pytest.Pytester, body: str, options: str = "") -> _Terminal:
    session.makepyfile(test_it=PROGRAM + body)
    return _Terminal(session.spawn_pytest(f"--world-pdb=1 {options}", expect_timeout=60.0))


def test_a_breakpoint_opens_a_debugger_that_prints_steps_and_goes_on(
    session: pytest.Pytester,
) -> None:
    """The deadline of 1 s waits with the user; what the rank prints is shown in its order."""
    terminal = _terminal(
        session, "\ndef test_it(world):\n    assert world(dp=2, timeout=1).run(total) == [30] * 2\n"
    )
    opened = terminal.expect() + terminal.past_the_call()
    assert "PDB set_trace on rank 1 (IO-capturing turned off)" in opened
    assert opened.index("printed before") < opened.index("-> value = value * 10")
    time.sleep(3)
    assert "tensor([2.])\n" == terminal.type("p value")
    assert "-> print(" in terminal.type("n")
    stepped = terminal.type("n")
    assert stepped.index("printed between") < stepped.index("-> dist.all_reduce(value)")
    assert "total()" in terminal.type("w")
    assert "Oldest frame" in terminal.type("up")
    terminal.type("c", "PDB continue .IO-capturing resumed.")
    assert 0 == terminal.ends()
    assert "1 passed" in terminal.said


def test_breakpoints_in_loops_in_several_runs_and_those_set_by_hand(
    session: pytest.Pytester,
) -> None:
    """The debugger opens each time, stepping off the end closes it, and the world stays clean."""
    terminal = _terminal(
        session,
        "\ndef test_it(world):\n    shared = world(dp=2)\n    first = shared.run(loop)\n"
        "    assert shared.run(loop) == first\n    assert shared.run(ends) == [0, 1]\n",
        "--world-reuse=module",
    )
    assert "round 0" in terminal.expect()
    assert "0\n" == terminal.type("p i")
    line = PROGRAM.splitlines().index("    return os.getpid()")
    assert "Breakpoint 1" in terminal.type(f"b {line}")
    assert "round 1" in terminal.type("c")
    assert "return os.getpid()" in terminal.type("c")
    assert "Deleted" in terminal.type("cl 1")
    assert "round 0" in terminal.type("c")
    assert "round 1" in terminal.type("c")
    assert "-> return rank" in terminal.type("c") + terminal.past_the_call()
    assert "--Return--" in terminal.type("n")
    terminal.type("n", "PDB continue")
    assert 0 == terminal.ends()
    assert "not used again" not in terminal.said


def test_the_keys_of_a_terminal_work(session: pytest.Pytester) -> None:
    """Tab completes with the rank's names; Ctrl-C ends a command; Ctrl-D an interpreter."""
    terminal = _terminal(session, "\ndef test_it(world):\n    world(dp=2).run(loop)\n")
    terminal.expect()
    assert "function slow" in terminal.type("p ho\t")
    terminal.ctrl("c")
    assert "--KeyboardInterrupt--" in terminal.expect()
    terminal._child.sendline("p how(600)")
    time.sleep(0.5)
    terminal.ctrl("c")
    assert "sent to rank 1" in terminal.expect()
    terminal.type("interact", ">>> ")
    assert "3\n" == terminal.type("rank + 2", ">>> ")
    terminal.ctrl("d")
    terminal.expect()
    terminal.type("q", "PDB quit")
    assert 2 == terminal.ends()


def test_an_uncaught_exception_opens_the_debugger_where_it_was_raised(
    session: pytest.Pytester,
) -> None:
    """After it the test fails as ever; a skip is no failure."""
    terminal = _terminal(
        session,
        "\ndef test_skip(world):\n    world(dp=2).run(left_out)\n"
        "\ndef test_it(world):\n    world(dp=2).run(raises)\n",
    )
    opened = terminal.expect()
    assert "PDB post_mortem on rank 1" in opened
    assert "-> assert value == 40" in opened
    assert "41\n" == terminal.type("p value")
    terminal.type("c", "PDB continue")
    assert 1 == terminal.ends()
    assert "rank 1 raised AssertionError" in terminal.said
    assert "1 failed, 1 skipped" in terminal.said


def test_quitting_ends_the_session_and_every_rank(session: pytest.Pytester) -> None:
    """As with pytest's own --pdb."""
    terminal = _terminal(
        session, "\ndef test_it(world):\n    world(dp=2).run(loop)\n\ndef test_more():\n    pass\n"
    )
    terminal.expect()
    rank = int(terminal.type("p os.getpid()"))
    terminal.type("q", "PDB quit")
    assert 2 == terminal.ends()
    assert "Exit: Quitting debugger" in terminal.said
    with pytest.raises(ProcessLookupError):
        _wait_for_end(rank)


def _wait_for_end(pid: int) -> None:
    until = time.monotonic() + 5
    while time.monotonic() < until:
        os.kill(pid, 0)
        time.sleep(0.02)


def test_nothing_is_judged_while_a_prompt_is_open(session: pytest.Pytester) -> None:
    """Though another rank has failed; stepping into a call that is never answered is a fault."""
    terminal = _terminal(
        session,
        "\ndef test_raises(world):\n    world(dp=2, timeout=1).run(other_raises)\n"
        "\ndef test_skipped(world):\n    world(dp=2, timeout=1).run(skipped)\n"
        "\ndef test_dies(world):\n    world(dp=2, timeout=1).run(loop)\n",
    )
    terminal.expect()
    time.sleep(2)
    assert "1\n" == terminal.type("p rank")
    terminal.type("c", "PDB continue")
    assert "-> dist.all_reduce" in terminal.expect() + terminal.past_the_call()
    time.sleep(2)
    terminal.type("n", "PDB the world has ended")
    terminal.expect()
    terminal.type("!os._exit(3)", "PDB the world has ended")
    assert 1 == terminal.ends()
    assert "rank 0 raised KeyError" in terminal.said
    assert "rank-dependent skip: rank 0" in terminal.said
    assert "rank 1 died" in terminal.said
    assert "straggler" not in terminal.said


def test_a_pytest_timeout_waits_too(session: pytest.Pytester) -> None:
    """The test is not failed for the time at the prompt, and a second run has time as well."""
    pytest.importorskip("pytest_timeout")
    terminal = _terminal(
        session,
        "\n@pytest.mark.timeout(12)\ndef test_it(world):\n    shared = world(dp=2)\n"
        "    shared.run(ends)\n    shared.run(ends)\n",
    )
    terminal.expect()
    time.sleep(13)
    terminal.type("c")
    terminal.type("c", "PDB continue")
    assert 0 == terminal.ends()


def test_the_other_ranks_pass_their_breakpoints_and_say_so_once(session: pytest.Pytester) -> None:
    """pdb's, and torch's own, which chooses the rank itself."""
    terminal = _terminal(
        session,
        "\ndef test_it(world):\n    world(dp=2).run(loop)\n    world(dp=2).run(torchs)\n    assert 0\n",
    )
    terminal.expect()
    terminal.type("c")
    terminal.type("c")
    assert "1\n" == terminal.type("p rank")
    terminal.type("c", "PDB continue")
    assert 1 == terminal.ends()
    assert 1 == terminal.said.count("is passed over: --world-pdb=1")
    assert "pdb.set_trace() on rank 0" in terminal.said


def test_a_breakpoint_without_the_option_says_how_to_debug(session: pytest.Pytester) -> None:
    """Each way to write one: the rank fails, at that line, with the command to use."""
    session.makepyfile(
        test_it=PROGRAM
        + "\nimport pytest\n\n@pytest.mark.parametrize('function', [total, loop, ends, torchs])\n"
        "def test_it(world, function):\n    world(dp=2).run(function)\n"
    )
    result = session.runpytest_subprocess()
    result.assert_outcomes(failed=4)
    text = result.stdout.str()
    how = "a rank has no terminal; run this test with pytest --world-pdb=1 (without -n)"
    for call, line in (
        ("breakpoint()", "    breakpoint()"),
        ("pdb.set_trace()", '        pdb.set_trace(header=f"round {i}")'),
        ("pdb.set_trace()", "    set_trace()"),
        ("torch.distributed.breakpoint()", "    dist.breakpoint(rank=1)"),
    ):
        number = PROGRAM.splitlines().index(line)
        assert f"{call} on rank 1 at test_it.py:{number}: {how}" in text


def test_a_breakpoint_outside_pytest_speaks_of_no_option(
    session: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script has no --world-pdb."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    session.makepyfile(
        script=PROGRAM + "\nfrom harness import World\nif __name__ == '__main__':\n"
        "    with World() as world:\n        world.run(ends)\n"
    )
    result = session.run(sys.executable, "script.py")
    assert 1 == result.ret
    said = result.stderr.str()
    assert "pdb.set_trace() on rank 0" in said
    assert "a rank has no terminal" in said
    assert "--world-pdb" not in said


def test_without_a_terminal_the_debugger_says_so(session: pytest.Pytester) -> None:
    """Commands may come from a file; at its end the session ends."""
    session.makepyfile(test_it=PROGRAM + "\ndef test_it(world):\n    world(dp=2).run(loop)\n")
    result = session.run(
        sys.executable, "-m", "pytest", "--world-pdb=1", stdin=b"p 'i is', i\np rank\n"
    )
    assert 2 == result.ret
    result.stdout.fnmatch_lines(
        ["*('i is', 0)*", "*Exit: --world-pdb=1: the debugger has nothing to read from*"]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--world-pdb=one"], "ERROR: --world-pdb: 'one' is not a rank, a whole number from 0; *"),
        (["--world-pdb=-1"], "ERROR: --world-pdb: '-1' is not a rank*"),
        (["--world-pdb=1", "-n2"], "ERROR: --world-pdb=1: the workers of pytest-xdist have no *"),
    ],
)
def test_what_cannot_be_debugged_is_said_at_once(
    session: pytest.Pytester, options: list[str], message: str
) -> None:
    """One line that names the option and the fix."""
    session.makepyfile(test_it="")
    result = session.runpytest_subprocess(*options)
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines([message])


def test_a_rank_outside_the_world_is_said_when_it_starts(session: pytest.Pytester) -> None:
    """With its size."""
    session.makepyfile(test_it="\ndef test_it(world):\n    world(dp=2)\n")
    result = session.runpytest_subprocess("--world-pdb=2", "-n0")
    result.assert_outcomes(errors=0, failed=1)
    result.stdout.fnmatch_lines(["*--world-pdb=2: this world has 2 ranks, 0 to 1; *"])
