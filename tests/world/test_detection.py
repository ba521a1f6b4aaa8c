"""Each fault is named with its rank, call and line; each corrected twin stays silent."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

import harness
from harness import Finding, World, WorldError
from harness.supervisor import _probes
from harness.verdict import Judge


def _run(function: Callable[..., Any], *args: Any, **options: Any) -> list[Any]:
    with World(**{"dp": 2, **options}) as world:
        return world.run(function, *args)


def _fault(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[Finding, WorldError]:
    with pytest.raises(WorldError) as caught:
        _run(function, *args, **options)
    return caught.value.findings[0], caught.value


def _line(function: Callable[..., Any], text: str) -> str:
    """``file:line`` of the line of ``function`` that contains ``text``."""
    import inspect

    lines, start = inspect.getsourcelines(function)
    offset = next(i for i, line in enumerate(lines) if text in line)
    return f"{__file__}:{start + offset}"


def test_a_skip_that_returns_names_the_rank_the_call_and_the_line() -> None:
    """A rank that leaves one all_reduce out and returns is the one at fault."""

    def program(rank: int) -> None:
        value = torch.ones(3)
        dist.all_reduce(value)
        if rank == 0:
            dist.all_reduce(value)  # SKIPPED

    finding, error = _fault(program)
    assert finding.kind == "missing_participant"
    assert finding.ranks == (1,)
    assert finding.index == 2
    assert finding.sites[0] == _line(program, "SKIPPED")
    assert error.seconds_to_verdict < 1.0
    first = str(error).splitlines()[0]
    assert first.startswith("rank-dependent skip: rank 1 of world [0, 1] never made call 2")
    assert "all_reduce(SUM, float32[3])" in first


def test_without_the_skip_nothing_is_said() -> None:
    """The corrected twin of a skip passes."""

    def program(rank: int) -> float:
        first, second = torch.ones(3), torch.ones(3)
        dist.all_reduce(first)
        dist.all_reduce(second)
        return (first + second)[0].item()

    assert _run(program) == [4.0, 4.0]


def test_a_skip_followed_by_another_all_reduce_is_named_where_it_happened() -> None:
    """Calls that pair up one position off, silently, are traced to the skipped one."""

    def program(rank: int) -> None:
        if rank == 0:
            dist.all_reduce(torch.ones(3))  # SKIPPED
        dist.all_reduce(torch.ones(3))

    finding, _ = _fault(program)
    assert finding.kind == "missing_participant"
    assert finding.ranks == (1,)
    assert finding.index == 1
    assert finding.sites[0] == _line(program, "SKIPPED")


def test_a_skip_that_exits_is_told_from_the_innocent_rank() -> None:
    """The rank that leaves with os._exit(0) is at fault, not the one that is cut off."""

    def program(rank: int) -> None:
        if rank == 1:
            os._exit(0)
        dist.all_reduce(torch.ones(3))

    finding, _ = _fault(program)
    assert finding.kind in ("rank_died", "missing_participant")
    assert finding.ranks == (1,)


def test_a_skip_that_stays_alive_in_another_group_is_found_at_once() -> None:
    """A rank that waits elsewhere is no less absent: the verdict needs no timeout."""

    def program(rank: harness.Rank) -> None:
        pair = dist.new_group([0, 1])
        if rank == 0:
            dist.all_reduce(torch.ones(3))
        dist.all_reduce(torch.ones(3), group=pair)

    finding, error = _fault(program)
    assert finding.kind in ("missing_participant", "deadlock")
    assert error.seconds_to_verdict < 1.0


def test_sum_against_max_is_an_argument_mismatch() -> None:
    """gloo says nothing about another reduce op; the verdict does."""

    def program(rank: int) -> None:
        op = dist.ReduceOp.SUM if rank == 0 else dist.ReduceOp.MAX
        dist.all_reduce(torch.ones(3), op=op)

    finding, _ = _fault(program)
    assert (finding.kind, finding.detail) == ("argument_mismatch", "reduce_op")
    assert set(finding.sites) == {0, 1}


def test_another_root_is_an_argument_mismatch() -> None:
    """Each rank broadcasting from itself is named as a root mismatch."""

    def program(rank: int) -> None:
        dist.broadcast(torch.ones(3), src=int(rank))

    finding, _ = _fault(program)
    assert (finding.kind, finding.detail) == ("argument_mismatch", "root")


@pytest.mark.parametrize("other", [torch.float64, torch.int32])
def test_another_dtype_is_an_argument_mismatch(other: torch.dtype) -> None:
    """Both a different width, where gloo aborts, and an equal width, where it says nothing."""

    def program(rank: int) -> None:
        dist.all_reduce(torch.ones(3, dtype=torch.float32 if rank == 0 else other))

    finding, _ = _fault(program)
    assert (finding.kind, finding.detail) == ("argument_mismatch", "dtype")


def test_two_groups_entered_in_opposite_order_are_a_deadlock() -> None:
    """The cycle A/B against B/A is proved, not guessed from a timeout."""

    def program(rank: int) -> None:
        a, b = dist.new_group([0, 1]), dist.new_group([0, 1])
        for group in (a, b) if rank == 0 else (b, a):
            dist.all_reduce(torch.ones(3), group=group)

    finding, error = _fault(program)
    assert finding.kind == "deadlock"
    assert finding.ranks == (0, 1)
    assert error.seconds_to_verdict < 1.0


def test_the_same_two_groups_with_async_work_are_legal() -> None:
    """Issued in opposite order but waited for later, A/B against B/A completes."""

    def program(rank: int) -> None:
        a, b = dist.new_group([0, 1]), dist.new_group([0, 1])
        works = [
            dist.all_reduce(torch.ones(3), group=group, async_op=True)
            for group in ((a, b) if rank == 0 else (b, a))
        ]
        for work in works:
            assert work is not None
            work.wait()

    _run(program)


def test_a_group_that_only_its_members_make_is_a_fault() -> None:
    """new_group must be called by every rank, members or not."""

    def program(rank: int) -> None:
        if rank < 2:
            dist.new_group([0, 1])  # MEMBERS ONLY

    finding, _ = _fault(program, dp=4)
    assert finding.kind == "group_creation"
    assert set(finding.ranks) == {2, 3}


def test_a_group_that_every_rank_makes_is_legal() -> None:
    """The corrected twin: all ranks call new_group, the members use it."""

    def program(rank: int) -> None:
        group = dist.new_group([0, 1])
        if rank < 2:
            dist.all_reduce(torch.ones(1), group=group)

    _run(program, dp=4)


def test_an_exception_on_one_rank_is_the_cause() -> None:
    """The others wait for the rank that raised; its traceback is shown."""

    def program(rank: int) -> None:
        if rank == 0:
            raise ValueError("bad row")
        dist.barrier()

    finding, error = _fault(program)
    assert finding.kind == "rank_raised"
    assert finding.ranks == (0,)
    assert "ValueError: bad row" in str(error).splitlines()[0]
    assert isinstance(error.exceptions[0], ValueError)


def test_exit_code_three_on_rank_one_fails_the_run() -> None:
    """os._exit(3) is seen though rank 0 is fine."""

    def program(rank: int) -> None:
        if rank == 1:
            os._exit(3)

    finding, error = _fault(program)
    assert finding.kind == "rank_died"
    assert finding.ranks == (1,)
    assert "exit code 3" in str(error).splitlines()[0]


def test_two_branches_that_call_the_same_collective_are_legal() -> None:
    """The call sites differ, the calls agree."""

    def program(rank: int) -> None:
        for _ in range(3):
            if rank == 0:
                dist.all_reduce(torch.ones(3))
            else:
                dist.all_reduce(torch.zeros(3))

    _run(program)


def test_a_slow_rank_is_not_a_fault() -> None:
    """A rank still in user code is late, nothing more."""

    def program(rank: int) -> None:
        if rank == 1:
            time.sleep(1.5)
        dist.all_reduce(torch.ones(3))

    _run(program)


def test_a_stage_that_returns_early_is_legal() -> None:
    """Only the last pipeline stage reduces over its own data-parallel group."""

    def program(rank: harness.Rank) -> None:
        if rank.pp == 0:
            return
        dist.all_reduce(torch.ones(3), group=rank.group("dp"))

    _run(program, dp=2, pp=2)


def test_to_be_asked_for_its_stack_harms_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred questions to a rank that enters functions from C all the time: it goes on."""
    asked: list[dict[int, _probes.Probe]] = []
    answered = _probes.Probes.answered

    def counted(probes: _probes.Probes, answers: dict[int, _probes.Probe]) -> None:
        asked.append(answers)
        answered(probes, answers)

    monkeypatch.setattr(_probes.Probes, "answered", counted)
    monkeypatch.setattr(_probes, "APART", 0.002)
    monkeypatch.setattr(_probes, "SLOWEST", 0.002)

    class Small:
        def __init__(self) -> None:
            self.size = 1

    def program(rank: int) -> None:
        until = time.monotonic() + 3.0
        while rank == 1 and time.monotonic() < until:
            for _ in range(1000):
                Small()
        dist.barrier()

    with World(dp=2) as world:
        world.run(program)
    assert len(asked) > 50
    shown = [answers[1] for answers in asked if answers.get(1) and answers[1].text]
    assert len(shown) > 50
    assert all("in program" in probe.text for probe in shown)


def test_a_rank_that_computes_for_ever_is_a_straggler_with_its_stack() -> None:
    """At the deadline the rank that is still in user code is shown where it is."""

    def program(rank: int) -> None:
        if rank == 1:
            while True:
                time.sleep(0.01)  # HERE
        dist.all_reduce(torch.ones(3))

    finding, error = _fault(program, timeout=2)
    assert finding.kind == "straggler"
    assert finding.ranks == (1,)
    assert finding.sites[1] == _line(program, "HERE")
    assert "in program" in error.stacks[1]
    assert "stacks_as_asked" not in error.stacks[1], "how it was asked is not its business"


def test_a_ddp_backward_that_one_rank_skips_is_proved_from_outside() -> None:
    """DDP waits in C++, which writes no record; the verdict still needs no deadline."""

    def program(rank: int) -> None:
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
        loss = model(torch.ones(2, 4)).sum()
        if rank == 0:
            loss.backward()  # BACKWARD

    started = time.monotonic()
    finding, _ = _fault(program, timeout=20)
    assert finding.kind == "missing_participant"
    assert finding.ranks == (1,)
    assert finding.sites[0] == _line(program, "BACKWARD")
    assert time.monotonic() - started < 10


def test_head_to_head_sends_are_a_deadlock_though_they_might_be_buffered() -> None:
    """By contract a send may wait for its receive; a world can be told that it never does."""

    def program(rank: int) -> None:
        value = torch.ones(2)
        work = dist.isend(value, 1 - rank)
        if rank == 0:
            time.sleep(0.1)
        assert work is not None
        work.wait()
        dist.recv(torch.ones(2), 1 - rank)

    finding, _ = _fault(program)
    assert ("deadlock", (0, 1)) == (finding.kind, finding.ranks)


def test_values_are_compared_out_of_band() -> None:
    """expect, expect_same and unchanged name the rank, the line and both values."""

    def program(rank: int, wrong: bool) -> None:
        kl = torch.tensor([0.1, 0.2])
        harness.unchanged("kl", kl)
        harness.expect_same("mean", torch.tensor(1.0 + (wrong and rank == 1)))  # SAME
        harness.expect("sum", kl.sum(), 0.3, atol=1e-6)

    _run(program, False, dp=3)
    finding, error = _fault(program, True, dp=3)
    assert ("value_mismatch", (1,)) == (finding.kind, finding.ranks)
    assert finding.sites[1] == _line(program, "# SAME")

    def writing(rank: int) -> None:
        kl = torch.tensor([0.1, 0.2])
        harness.unchanged("kl", kl)
        if rank == 1:
            kl.mul_(-1)

    finding, error = _fault(writing)
    assert ("mutated_value", (1,)) == (finding.kind, finding.ranks)
    assert "[0.1, 0.2] has become [-0.1, -0.2]" in str(error)


def test_labels_tell_apart_calls_on_one_line() -> None:
    """Two values reduced under two labels are a fault, though the calls agree."""

    def program(rank: int, wrong: bool) -> None:
        for name in ["loss", "odd" if rank and wrong else "even"]:
            with harness.label(name):
                dist.all_reduce(torch.ones(1))

    _run(program, False)
    finding, error = _fault(program, True)
    assert "misaligned_calls" == finding.kind
    assert "odd" in str(error).splitlines()[0]
    assert "even" in str(error).splitlines()[0]


def test_the_deadline_holds_though_the_judge_cries_wolf(monkeypatch: pytest.MonkeyPatch) -> None:
    """A suspicion that turns out to be no fault, again and again, does not outlive the deadline."""
    from harness.supervisor import _supervisor

    class Crying(Judge):
        def fault(self) -> bool:
            return True

        def findings(self, *, deadline: bool = False, stacks: Any = None) -> list[Finding]:
            return super().findings(deadline=True, stacks=stacks) if deadline else []

    monkeypatch.setattr(_supervisor, "Judge", Crying)

    def program(rank: int) -> None:
        if rank == 1:
            time.sleep(60)
        dist.barrier()

    finding, _ = _fault(program, timeout=2)
    assert ("straggler", (1,)) == (finding.kind, finding.ranks)
