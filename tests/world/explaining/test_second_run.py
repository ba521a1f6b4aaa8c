"""When the second run is made, how it is bounded, and that it leaves the program as it was."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from harness import World, WorldError, _rerun
from harness.launch._forkserver import ForkServer, Launched
from harness.launch._spec import WorldSpec

from .asking import divergence, explanation, line


def _been_here(mark: str, rank: int) -> bool:
    """Whether the rank of an earlier run has asked this; it leaves a mark for the next."""
    try:
        os.close(os.open(f"{mark}-{int(rank)}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return True
    return False


def test_functions_before_it_run_again(tmp_path: Path) -> None:
    """A fault that needs what an earlier function left behind comes up in the second run, too."""

    def first(rank: int) -> None:
        os.environ["SEEN"] = str(rank)

    def second(rank: int) -> None:
        if os.environ["SEEN"] == "0":  # GUARD
            dist.barrier()

    with World(dp=2, explain="always") as world:
        world.run(first)
        with pytest.raises(WorldError) as caught:
            world.run(second)
    assert caught.value.run is not None
    found = caught.value.run.explanation
    assert found is not None
    assert found.divergence is not None
    assert line(second, "GUARD") == found.divergence.line


def test_a_fault_that_does_not_recur(tmp_path: Path) -> None:
    """It says so, and where the ranks did take different ways."""

    def program(rank: int, seen: str) -> None:
        if rank == 0:  # DIFFERS
            print("only here")
        if not _been_here(seen, rank) and rank == 1:
            return
        dist.barrier()

    found = explanation(program, str(tmp_path / "seen"))
    assert found is not None
    assert found.divergence is None
    assert "did not recur" in found.reason
    assert [line(program, "DIFFERS")] == [place.line for place in found.differed]


def test_a_second_run_that_does_not_end_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test does not wait for it."""
    monkeypatch.setitem(_rerun.LEAST, "auto", 0.5)

    def program(rank: int, seen: str) -> None:
        if _been_here(seen, rank):
            time.sleep(60)
        if rank == 0:
            dist.barrier()

    began = time.monotonic()
    found = explanation(program, str(tmp_path / "seen"), explain="auto")
    assert found is not None
    assert "cut off" in found.reason
    assert time.monotonic() - began < 30


def test_ranks_that_come_up_late_have_their_time_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A busy machine starts ranks slowly; the bound is for what they do then."""
    monkeypatch.setitem(_rerun.LEAST, "auto", 0.9)
    launch = ForkServer.launch

    def late(server: ForkServer, spec: WorldSpec) -> Launched:
        if spec.trace is not None:
            process = server._process
            assert process is not None
            process.send_signal(signal.SIGSTOP)
            threading.Timer(1.0, process.send_signal, [signal.SIGCONT]).start()
        return launch(server, spec)

    monkeypatch.setattr(ForkServer, "launch", late)
    found = explanation(_never, explain="auto")
    assert found is not None
    assert found.divergence is not None, found.reason
    assert found.seconds > 0.9


def test_what_an_expression_does_is_not_done_again() -> None:
    """A property with an effect is not asked a second time by the explainer."""

    class Batches:
        taken = 0

        @property
        def next(self) -> int:
            self.taken += 1
            return self.taken

    def program(rank: int) -> int:
        batches = Batches()
        if batches.next == 1 and rank == 0:
            assert batches.taken == 1, "asked twice"
            dist.barrier()
        return batches.taken

    found = divergence(program)
    assert "if batches.next == 1 and rank == 0:" == found.source
    assert [(("rank", "0"),), (("rank", "1"),)] == [way.values for way in found.ways]


def test_a_buffer_in_flight_is_not_touched() -> None:
    """Looking at a tensor that a collective works on is no hazard of the user's."""

    def program(rank: int) -> None:
        value = torch.ones(1 << 12)
        work = dist.all_reduce(value, async_op=True)
        if value.numel() > 0 and rank == 0:  # GUARD
            dist.barrier()
        assert work is not None
        work.wait()

    assert line(program, "GUARD") == divergence(program).line


def test_too_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A way that is too long to keep gives no answer rather than a wrong one."""
    from harness.explain import _plan

    monkeypatch.setattr(_plan, "EVENTS", 8192)

    def program(rank: int) -> None:
        total = 0
        for number in range(20_000):
            total += number
        if rank == 0:
            dist.barrier()

    found = explanation(program)
    assert found is not None
    assert found.divergence is None
    assert "too many steps" in found.reason


def test_code_without_a_source() -> None:
    """It is said, and nothing is made up."""
    made: dict[str, Any] = {"dist": dist}
    exec(
        compile("def program(rank):\n  if rank == 0:\n    dist.barrier()\n", "nowhere.py", "exec"),
        made,
    )
    found = explanation(made["program"])
    assert found is not None
    assert found.divergence is None
    assert "the source of nowhere.py cannot be read" == found.reason


def test_a_call_of_another_thread() -> None:
    """Only the main thread is followed."""

    def program(rank: int) -> None:
        def reduce() -> None:
            if rank == 0:
                dist.barrier()

        thread = threading.Thread(target=reduce)
        thread.start()
        thread.join(timeout=10)

    found = explanation(program)
    assert found is not None
    assert found.divergence is None
    assert "another thread" in found.reason


def test_an_error_of_the_explainer_does_not_hide_the_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The report says so, below the verdict."""

    def broken(*_: object) -> None:
        raise KeyError("nothing there")

    monkeypatch.setattr(_rerun, "plan", broken)
    found = explanation(_never)
    assert found is not None
    assert "internal error of pytest-collectives" in found.reason
    assert "KeyError: 'nothing there'" in found.reason


def _never(rank: int) -> None:
    if rank == 0:
        dist.barrier()


def test_it_can_be_turned_off() -> None:
    """With ``never`` there is one run."""
    assert explanation(_never, explain="never") is None


def test_a_long_first_run_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless one asks for it."""
    monkeypatch.setattr(_rerun, "LONGEST_FIRST", 0.0)
    found = explanation(_never, explain="auto")
    assert found is not None
    assert "--world-explain=always" in found.reason
    assert divergence(_never, explain="always").source == "if rank == 0:"


def test_where_all_ranks_raise_nothing_is_run_again(tmp_path: Path) -> None:
    """A failing assertion is the most common fault, and no rank went another way."""

    def program(rank: int, folder: str) -> None:
        Path(folder, f"{rank}-{os.getpid()}").touch()
        raise AssertionError("wrong on all")

    assert explanation(program, str(tmp_path)) is None
    assert 2 == len(list(tmp_path.iterdir()))


def test_a_source_that_was_changed(tmp_path: Path) -> None:
    """Lines of another text than the one that runs would be wrong ones."""
    source = tmp_path / "changing.py"
    text = "import torch.distributed as dist\ndef program(rank):\n  if rank == 0:\n    dist.barrier()\n"
    source.write_text(text)
    made: dict[str, Any] = {}
    exec(compile(text, str(source), "exec"), made)
    source.write_text(text.replace("  if", "  x = 1\n  if"))
    found = explanation(made["program"])
    assert found is not None
    assert found.divergence is None
    assert f"{source} was changed after its code had been imported" == found.reason


def test_a_busy_rank_that_dies_in_the_second_run(tmp_path: Path) -> None:
    """It went the same way; that it was killed there does not hide the line."""

    def program(rank: int, seen: str) -> None:
        again = _been_here(seen, rank)
        while rank == 1:  # GUARD
            if again:
                os.kill(os.getpid(), 11)
        dist.barrier()

    found = divergence(program, str(tmp_path / "seen"), timeout=1.0)
    assert line(program, "GUARD") == found.line


def test_a_fault_that_is_proved_otherwise(tmp_path: Path) -> None:
    """What is proved first may depend on time: the same call is still looked at."""

    def program(rank: int, seen: str) -> None:
        again = _been_here(seen, rank)
        if rank == 0:  # GUARD
            dist.barrier()
            return
        if not again:
            dist.all_reduce(torch.ones(1))

    found = divergence(program, str(tmp_path / "seen"))
    assert line(program, "GUARD") == found.line


def test_a_timeout_of_the_test_does_not_hide_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may strike in the second run; the first one has shown what is wrong."""

    def struck(*_: object) -> None:
        pytest.fail("Timeout (>3.0s) from pytest-timeout.")

    monkeypatch.setattr(_rerun, "_second", struck)
    found = explanation(_never)
    assert found is not None
    assert "the test ran into its timeout in the second run" == found.reason


def test_nothing_is_left_open() -> None:
    """No descriptor of the traces stays behind."""
    explanation(_never)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        explanation(_never)
    assert before >= len(os.listdir("/proc/self/fd"))


def test_another_word_is_refused() -> None:
    """The error names the argument and what it may be."""
    with pytest.raises(ValueError, match="explain: one of auto, always, never, not 'maybe'"):
        World(dp=2, explain="maybe")
