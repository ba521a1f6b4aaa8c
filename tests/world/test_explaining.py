"""The second run: what it names, when it is made, and that it leaves the program as it was."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from harness import World, WorldError, _rerun
from harness.explain import Divergence, Explanation


def explanation(
    function: Callable[..., Any], *args: Any, explain: str = "always", **options: Any
) -> Explanation | None:
    """What is said of the fault of ``function`` on two ranks."""
    with (
        pytest.raises(WorldError) as caught,
        World(**{"dp": 2, "explain": explain, **options}) as world,
    ):
        world.run(function, *args)
    assert caught.value.run is not None
    return caught.value.run.explanation


def divergence(function: Callable[..., Any], *args: Any, **options: Any) -> Divergence:
    """The place that is named."""
    found = explanation(function, *args, **options)
    assert found is not None
    assert found.divergence is not None, found.reason
    return found.divergence


def line(function: Callable[..., Any], text: str) -> int:
    """The number of the line of ``function`` that holds ``text``."""
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, each in enumerate(lines) if text in each)


def guarded(rank: int, sizes: list[int]) -> None:
    """Reduces only where there is something to reduce."""
    mask = torch.ones(sizes[rank])
    if mask.numel() > 0:  # GUARD
        dist.all_reduce(mask.sum())


def test_the_guard_and_the_values_on_each_rank() -> None:
    """The line, the outcome and what decided it: a number, and a tensor in short."""
    found = divergence(guarded, [150, 0])
    assert (__file__, line(guarded, "GUARD")) == (found.file, found.line)
    assert ("if", "if mask.numel() > 0:  # GUARD") == (found.kind, found.source)
    first, second = found.ways
    assert ((0,), "True") == (first.ranks, first.outcome)
    assert ("mask.numel()", "150") == first.values[0]
    assert ("mask", "float32[150] all 1") == first.values[1]
    assert ((1,), "False") == (second.ranks, second.outcome)
    assert (("mask.numel()", "0"), ("mask", "float32[0]")) == second.values


def test_a_guard_in_the_caller() -> None:
    """The decision is not in the function that makes the call."""

    def reduce(value: torch.Tensor) -> None:
        dist.all_reduce(value)

    def program(rank: int) -> None:
        value = torch.ones(2)
        active = rank == 0
        if active:  # GUARD
            reduce(value)

    assert line(program, "GUARD") == divergence(program).line


def test_other_keys_in_a_loop() -> None:
    """The loop is named, with what each rank walks over."""

    def program(rank: int) -> None:
        metrics = {"loss": 1.0, "reward": 2.0} if rank == 0 else {"loss": 1.0}
        for name in metrics:  # LOOP
            dist.all_reduce(torch.tensor(metrics[name]))

    found = divergence(program)
    assert (line(program, "LOOP"), "for") == (found.line, found.kind)
    assert [
        (("metrics", "dict of 2: loss, reward"),),
        (("metrics", "dict of 1: loss"),),
    ] == [way.values for way in found.ways]


def test_how_often_a_loop_had_run() -> None:
    """The pass in which the ranks parted, and what the condition was made of then."""

    def program(rank: int) -> None:
        left = 3 - rank
        while left > 0:  # LOOP
            left -= 1
            dist.barrier()

    found = divergence(program)
    assert (line(program, "LOOP"), "while") == (found.line, found.kind)
    assert "after 2 passes of the loop" == found.note
    assert [("True", (("left", "1"),)), ("False", (("left", "0"),))] == [
        (way.outcome, way.values) for way in found.ways
    ]


def test_an_exception_that_one_rank_swallows() -> None:
    """What was raised, where it was raised and where it was caught."""

    def program(rank: int) -> None:
        total = torch.zeros(1)
        try:
            total += 1 // (1 - rank)  # RAISES
            dist.all_reduce(total)
        except ZeroDivisionError:  # CAUGHT
            pass

    found = divergence(program)
    assert (line(program, "RAISES"), "try") == (found.line, found.kind)
    assert {"went on", "raised ZeroDivisionError: integer division or modulo by zero"} == {
        way.outcome for way in found.ways
    }
    assert f"caught at test_explaining.py:{line(program, 'CAUGHT')}" in found.note


def test_a_rank_that_raised() -> None:
    """Why it alone came to the line that raises."""

    def program(rank: int) -> None:
        rows = [3, 4] if rank == 0 else [3, -1]
        for row in rows:
            if row < 0:  # GUARD
                raise ValueError(f"bad row {row}")
        dist.barrier()

    found = divergence(program)
    assert line(program, "GUARD") == found.line
    assert "in pass 2 of the loop" in found.note


def test_a_rank_that_died() -> None:
    """All that it did is known, though it sent nothing at its end."""

    def program(rank: int) -> None:
        if rank == 1:  # GUARD
            os._exit(3)
        dist.barrier()

    assert line(program, "GUARD") == divergence(program).line


def test_a_legal_branch_is_not_blamed() -> None:
    """Ranks that sent and received go different ways by design: nothing is named."""

    def program(rank: int) -> None:
        value = torch.zeros(2)
        if rank == 0:
            dist.send(value, dst=1, tag=1)
        else:
            dist.recv(value, src=0, tag=2)

    found = explanation(program)
    assert found is not None
    assert found.divergence is None
    assert found.reason


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
        mark = f"{seen}-{rank}"
        if not os.path.exists(mark):
            with open(mark, "w"):
                pass
            if rank == 1:
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
    monkeypatch.setattr(_rerun, "LEAST", 0.5)

    def program(rank: int, seen: str) -> None:
        mark = f"{seen}-{rank}"
        if os.path.exists(mark):
            time.sleep(60)
        with open(mark, "w"):
            pass
        if rank == 0:
            dist.barrier()

    began = time.monotonic()
    found = explanation(program, str(tmp_path / "seen"))
    assert found is not None
    assert "cut off" in found.reason
    assert time.monotonic() - began < 30


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
    import threading

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


def test_data_of_their_own_are_not_blamed() -> None:
    """Data-parallel ranks walk over other things by design; what else differs is only listed."""

    def program(rank: int) -> None:
        for number in range(rank, 8, 2):
            loss = torch.tensor(float(number))
            kind = torch.bfloat16 if rank == 1 else torch.float32  # DIFFERS
            dist.all_reduce(loss.to(kind))

    found = explanation(program)
    assert found is not None
    assert found.divergence is None
    assert [line(program, "DIFFERS")] == [place.line for place in found.differed]


def test_files_of_their_own_are_not_blamed() -> None:
    """Where nothing else is known to differ, the loop over a rank's own files is still not named."""

    def program(rank: int) -> None:
        kinds = [torch.float32, torch.float64]
        for path in [f"shard-{n}" for n in range(4)][rank::2]:
            value = torch.ones(len(path)).to(kinds[rank])
            dist.all_reduce(value)

    found = explanation(program)
    assert found is not None
    assert found.divergence is None


def test_the_same_names_in_another_order() -> None:
    """A loop over the same parameters in another order is the cause of other shapes."""

    def program(rank: int) -> None:
        sizes = {"weight": 4, "bias": 2} if rank == 0 else {"bias": 2, "weight": 4}
        for name in sizes:  # LOOP
            dist.all_reduce(torch.ones(sizes[name]))

    found = divergence(program)
    assert (line(program, "LOOP"), "order") == (found.line, found.kind)


def test_a_call_skipped_in_a_pass_in_the_middle() -> None:
    """What is missing at the end is the last call; the guard that skipped one stands in pass 2."""

    def program(rank: int) -> None:
        parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(3)]
        parameters[1].requires_grad_(rank == 0)
        for parameter in parameters:
            if not parameter.requires_grad:  # GUARD
                continue
            dist.all_reduce(parameter.data)

    found = divergence(program)
    assert line(program, "GUARD") == found.line
    assert "in pass 2 of the loop" in found.note


def test_a_method_that_makes_no_call() -> None:
    """The class that does nothing is followed, too, though no call was made from there."""

    class Loud:
        def reduce(self) -> None:
            dist.barrier()

    class Quiet(Loud):
        def reduce(self) -> None:
            pass

    def program(rank: int) -> None:
        kind = Loud if rank == 0 else Quiet
        kind().reduce()  # CALL

    found = divergence(program)
    assert (line(program, "CALL"), "call") == (found.line, found.kind)


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
        mark = f"{seen}-{rank}"
        again = os.path.exists(mark)
        with open(mark, "w"):
            pass
        while rank == 1:  # GUARD
            if again:
                os.kill(os.getpid(), 11)
        dist.barrier()

    found = divergence(program, str(tmp_path / "seen"), timeout=1.0)
    assert line(program, "GUARD") == found.line


def test_a_fault_that_is_proved_otherwise(tmp_path: Path) -> None:
    """What is proved first may depend on time: the same call is still looked at."""

    def program(rank: int, seen: str) -> None:
        mark = f"{seen}-{rank}"
        again = os.path.exists(mark)
        with open(mark, "w"):
            pass
        if rank == 0:  # GUARD
            dist.barrier()
            return
        if not again:
            dist.all_reduce(torch.ones(1))

    found = divergence(program, str(tmp_path / "seen"))
    assert line(program, "GUARD") == found.line


def test_one_of_many_ranks() -> None:
    """What is another value on each rank does not hide which of them went another way."""

    def program(rank: int) -> None:
        if rank != 6:  # GUARD
            dist.barrier()

    found = divergence(program, dp=8)
    assert [((0, 1, 2, 3, 4, 5, 7), "True", ()), ((6,), "False", ())] == [
        (way.ranks, way.outcome, way.values) for way in found.ways
    ]


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
