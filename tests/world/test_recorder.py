"""The recorder sees every way of making a collective, with the user's line and nothing of torch's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

from harness import World
from harness.record import Call, Creation, Finished, Record, Waiting
from harness.verdict import Judge


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Record]]:
    """Runs a function in a world and returns all records of its ranks."""
    from harness.supervisor import _supervisor

    kept: list[Record] = []

    class Keeping(Judge):
        def add(self, record: Record) -> None:
            kept.append(record)
            super().add(record)

    monkeypatch.setattr(_supervisor, "Judge", Keeping)

    def run(function: Callable[..., Any], **options: Any) -> list[Record]:
        kept.clear()
        with World(**{"dp": 2, **options}) as world:
            world.run(function)
        return list(kept)

    return run


def _calls(records: list[Record], rank: int = 0) -> list[Call]:
    return [r for r in records if isinstance(r, Call) and r.rank == rank]


def _ops(records: list[Record], rank: int = 0) -> list[str]:
    return [call.op for call in _calls(records, rank)]


def _all_in_this_file(records: list[Record]) -> bool:
    stacks = [call.stack for call in records if isinstance(call, Call)]
    return bool(stacks) and all(f.file == __file__ for stack in stacks for f in stack)


Recorded = Callable[..., list[Record]]

TORCH = tuple(map(int, torch.__version__.split(".")[:2]))


def test_the_plain_collectives(recorded: Recorded) -> None:
    """Each of torch.distributed's functions is one record with its own name."""

    def program(rank: int) -> None:
        two, one = torch.ones(2), torch.ones(1)
        dist.all_reduce(two)
        dist.broadcast(two, src=1)
        dist.reduce(two, dst=1, op=dist.ReduceOp.MAX)
        dist.all_gather([torch.ones(1), torch.ones(1)], one)
        dist.gather(one, [torch.ones(1), torch.ones(1)] if rank == 0 else None, dst=0)
        dist.scatter(one, [torch.ones(1), torch.ones(1)] if rank == 1 else None, src=1)
        if TORCH > (2, 6):  # gloo of 2.6 has none
            dist.reduce_scatter(one, [torch.ones(1), torch.ones(1)])
        dist.all_to_all_single(two, torch.ones(2))
        dist.barrier()

    records = recorded(program)
    assert [
        "all_reduce",
        "broadcast",
        "reduce",
        "all_gather",
        "gather",
        "scatter",
        *(["reduce_scatter"] if TORCH > (2, 6) else []),
        "all_to_all_single",
        "barrier",
    ] == _ops(records)
    calls = _calls(records)
    assert ("SUM", None) == (calls[0].reduce_op, calls[0].root)
    assert (None, 1) == (calls[1].reduce_op, calls[1].root)
    assert ("MAX", 1) == (calls[2].reduce_op, calls[2].root)
    assert list(range(len(calls))) == [call.index for call in calls]
    assert _all_in_this_file(records)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_all_reduce_is_recorded_once_in_whatever_way_it_goes(
    recorded: Recorded, asynchronous: bool
) -> None:
    """Directly, under a mode that makes tensors, under torch's own checks, of a subclass: alike."""

    def program(rank: int) -> None:
        from torch.utils._python_dispatch import TorchDispatchMode

        base: Any = TorchDispatchMode

        class Mode(base):  # type: ignore[misc]
            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                torch.zeros(1)  # made by the way that a direct call shuts
                return func(*args, **(kwargs or {}))

        plain = torch.ones(2)
        for value in (plain, torch.nn.Parameter(torch.ones(2), requires_grad=False)):
            work = dist.all_reduce(value, async_op=asynchronous)
            if work is not None:
                work.wait()
        with Mode():
            work = dist.all_reduce(plain, op=dist.ReduceOp.MAX, async_op=asynchronous)
            if work is not None:
                work.wait()
        assert plain.tolist() == [2.0, 2.0]
        assert torch.zeros(2).tolist() == [0.0, 0.0]

    for env in ({}, {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}):
        records = recorded(program, env=env)
        calls = _calls(records)
        assert [(c.op, c.reduce_op, c.async_op) for c in calls] == [
            ("all_reduce", "SUM", asynchronous),
            ("all_reduce", "SUM", asynchronous),
            ("all_reduce", "MAX", asynchronous),
        ], env
        assert _all_in_this_file(records)
        finished = [r.call for r in records if isinstance(r, Finished) and r.rank == 0]
        assert {call.call for call in calls} <= set(finished)


def test_the_same_line_in_other_callers_is_another_place(recorded: Recorded) -> None:
    """A helper that is called from two lines, in turns, and by itself: the stack is each call's own."""

    def helper(value: torch.Tensor, depth: int) -> None:
        if depth:
            helper(value, depth - 1)
        else:
            dist.all_reduce(value)

    def program(rank: int) -> None:
        for turn in range(3):
            helper(torch.ones(1), 0)
            helper(torch.ones(1), turn)

    calls = _calls(recorded(program))
    assert [len(call.stack) for call in calls] == [2, 2, 2, 3, 2, 4]
    lines = [call.stack[-1].line for call in calls]
    assert lines == [lines[0], lines[0] + 1] * 3
    assert [dict(call.stack[-1].loop) for call in calls] == [
        {"turn": str(turn)} for turn in range(3) for _ in range(2)
    ]


def test_point_to_point(recorded: Recorded) -> None:
    """Sends and receives have peer and tag, and streams of their own."""

    def program(rank: int) -> None:
        value = torch.ones(2)
        if rank == 0:
            dist.send(value, 1, tag=4)
            dist.recv(value)
        else:
            dist.recv(value, 0, tag=4)
            dist.send(value, 0)
        works = dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, value, 1 - rank),
                dist.P2POp(dist.irecv, torch.ones(2), 1 - rank),
            ]
        )
        for work in works:
            work.wait()

    records = recorded(program)
    seen = [(c.op, c.peer, c.tag, c.index) for c in _calls(records)]
    assert [("send", 1, 4, 0), ("recv", None, 0, 0), ("send", 1, 0, 0), ("recv", 1, 0, 0)] == seen
    assert _all_in_this_file(records)


def test_object_collectives(recorded: Recorded) -> None:
    """They appear as the tensor operations they are made of, all on the user's line."""

    def program(rank: int) -> None:
        dist.all_gather_object([None, None], {"rank": int(rank)})
        dist.broadcast_object_list([rank], src=0)

    records = recorded(program)
    assert ["all_gather", "all_gather", "broadcast", "broadcast"] == _ops(records)
    assert _all_in_this_file(records)


def test_functional_collectives(recorded: Recorded) -> None:
    """The call and the wait for its tensor."""

    def program(rank: int) -> None:
        import torch.distributed._functional_collectives as functional_collectives

        functional: Any = functional_collectives

        value = functional.all_reduce(torch.ones(2), "sum", dist.group.WORLD)
        assert value.sum().item() == 4.0

    records = recorded(program)
    assert ["all_reduce"] == _ops(records)
    assert 2 == sum(isinstance(r, Waiting) for r in records)
    assert _all_in_this_file(records)


def test_coalesced_calls(recorded: Recorded) -> None:
    """A coalescing block is one call."""

    def program(rank: int) -> None:
        manage: Any = dist.distributed_c10d._coalescing_manager
        with manage(dist.group.WORLD, async_ops=True) as manager:
            dist.all_reduce(torch.ones(2))
            dist.all_reduce(torch.ones(3))
        manager.wait()

    records = recorded(program)
    assert ["all_reduce_coalesced"] == _ops(records)
    assert [(2,), (3,)] == [t.shape for t in _calls(records)[0].inputs]


def test_autograd_collectives(recorded: Recorded) -> None:
    """torch.distributed.nn's forward and backward, the latter from autograd's engine."""

    def program(rank: int) -> None:
        value = torch.ones(2, requires_grad=True)
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            all_reduce: Any = torch.distributed.nn.functional.all_reduce
            total = all_reduce(value)
        total.sum().backward()

    records = recorded(program)
    assert ["all_reduce", "all_reduce"] == _ops(records)
    assert _all_in_this_file(records)


def test_ddp(recorded: Recorded) -> None:
    """DDP's C++ reducer is seen under the user's backward line."""

    def program(rank: int) -> None:
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
        model(torch.ones(2, 4)).sum().backward()

    records = recorded(program)
    last = _calls(records)[-1]
    assert ("all_reduce", False) == (last.op, last.from_python)
    assert _all_in_this_file(records)


@pytest.mark.skipif(TORCH < (2, 7), reason="fully_shard of torch 2.6 does not run on CPUs")
def test_fsdp2(recorded: Recorded) -> None:
    """fully_shard on the CPU: gathers in forward, reduce-scatters in backward."""

    def program(rank: int) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (2,))
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
        fully_shard(model, mesh=mesh)
        model(torch.ones(2, 4)).sum().backward()

    ops = set(_ops(recorded(program)))
    assert {"all_gather_into_tensor", "reduce_scatter_tensor"} <= ops


def test_dtensor(recorded: Recorded) -> None:
    """A redistribution is a collective of its mesh's group."""

    def program(rank: int) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor

        mesh = init_device_mesh("cpu", (2,))
        tensor = distribute_tensor(torch.ones(4), mesh, [Shard(0)])
        assert tensor.redistribute(mesh, [Replicate()]).to_local().sum().item() == 4.0

    records = recorded(program)
    assert any(op.startswith("all_gather") for op in _ops(records))


def test_calls_of_another_thread(recorded: Recorded) -> None:
    """They carry a thread number of their own."""

    def program(rank: int) -> None:
        def work() -> None:
            dist.all_reduce(torch.ones(1))

        dist.all_reduce(torch.ones(1))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(30)

    assert [0, 1] == [call.thread for call in _calls(recorded(program))]


def test_async_work_that_is_waited_for_out_of_order(recorded: Recorded) -> None:
    """Each wait leads back to its own call."""

    def program(rank: int) -> None:
        first = dist.all_reduce(torch.ones(1), async_op=True)
        second = dist.all_reduce(torch.ones(1), async_op=True)
        assert first is not None
        assert second is not None
        second.wait()
        first.wait()

    records = recorded(program)
    assert [1, 0] == [r.call for r in records if isinstance(r, Waiting) and r.rank == 0]


def test_group_creation(recorded: Recorded) -> None:
    """new_group, new_subgroups and device meshes, on members and others alike."""

    def program(rank: int) -> None:
        from torch.distributed.device_mesh import init_device_mesh

        dist.new_group([0])
        subgroups: Any = dist.new_subgroups
        subgroups(1)
        init_device_mesh("cpu", (2, 1))

    records = recorded(program)
    made = [r for r in records if isinstance(r, Creation)]
    assert [(0,), (0,), (1,)] == [r.ranks for r in made if r.rank == 1][:3]
    assert [r.index for r in made if r.rank == 0] == [r.index for r in made if r.rank == 1]
    assert all(f.file == __file__ for r in made for f in r.stack)


def test_loop_variables_come_with_the_stack(recorded: Recorded) -> None:
    """The targets of the loops around a call tell its passes apart."""

    def program(rank: int) -> None:
        for step in range(2):  # noqa: B007 - read from the frame
            for name, size in {"w": 1, "b": 2}.items():
                dist.all_reduce(torch.ones(size))
                del name

    loops = [call.stack[0].loop for call in _calls(recorded(program))]
    assert (("step", "0"), ("name", "w"), ("size", "1")) == loops[0]
    assert (("step", "1"), ("name", "b"), ("size", "2")) == loops[-1]


def test_a_loop_variable_that_cannot_be_printed_is_shown_as_in_source(recorded: Recorded) -> None:
    """Control characters of a key do not get into the report."""

    def program(rank: int) -> None:
        for key in ("a b", "\x1b[31m\n", ""):
            dist.all_reduce(torch.ones(len(key) + 1))

    loops = [dict(call.stack[0].loop) for call in _calls(recorded(program))]
    assert ["a b", r"'\x1b[31m\n'", "''"] == [loop["key"] for loop in loops]


def test_ten_thousand_calls_give_no_finding() -> None:
    """A long correct run stays silent."""

    def program(rank: int) -> None:
        value = torch.ones(1)
        for _ in range(2500):
            dist.all_reduce(value)

    with World(dp=4) as world:
        world.run(program)
