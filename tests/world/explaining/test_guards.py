"""What the second run names: the line that decided, with the values on each rank."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

from .asking import divergence, explanation, line


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
    assert f"caught at test_guards.py:{line(program, 'CAUGHT')}" in found.note


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
    assert found.reason.startswith("of a send and its receive none can be told to be the wrong one")
    assert ["if rank == 0:"] == [place.source for place in found.differed]


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


def test_one_of_many_ranks() -> None:
    """What is another value on each rank does not hide which of them went another way."""

    def program(rank: int) -> None:
        if rank != 6:  # GUARD
            dist.barrier()

    found = divergence(program, dp=8)
    assert [((0, 1, 2, 3, 4, 5, 7), "True", ()), ((6,), "False", ())] == [
        (way.ranks, way.outcome, way.values) for way in found.ways
    ]
