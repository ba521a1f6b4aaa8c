"""What World.run promises: functions of every form, results in order, the environment of a rank."""

from __future__ import annotations

import linecache
import logging
import os
import random
import sys
from typing import Any

import pytest
import torch
import torch.distributed as dist

import harness
from harness import Layout, World, WorldError

FACTOR = 7


class Holder:
    """A class of this test module, to cross by value."""

    def __init__(self, value: int) -> None:
        self.value = value


def test_results_come_in_rank_order() -> None:
    """One result per rank, the first from rank 0."""
    with World(dp=2, cp=2) as world:
        assert [0, 1, 2, 3] == world.run(int)


def test_closures_lambdas_and_globals_of_the_test_module_travel() -> None:
    """What a test writes inline runs on the ranks."""
    offset = 100

    def local(rank: int, more: int) -> int:
        return rank * FACTOR + offset + more

    with World(dp=2) as world:
        assert [101, 108] == world.run(local, 1)
        assert [100, 101] == world.run(lambda rank: rank + offset)


def test_objects_of_the_test_module_come_back_as_themselves() -> None:
    """A class that travelled by value is the same class on the way back."""
    with World() as world:
        (back,) = world.run(lambda rank: Holder(FACTOR))
    assert isinstance(back, Holder)
    assert back.value == FACTOR


def test_a_world_runs_one_function_after_another() -> None:
    """The ranks and what they hold stay up between runs."""

    def remember(rank: int) -> int:
        sys.kept = 5  # type: ignore[attr-defined]
        return os.getpid()

    def recall(rank: int) -> tuple[int, int]:
        return os.getpid(), sys.kept  # type: ignore[attr-defined]

    with World(dp=2) as world:
        first = world.run(remember)
        assert [(pid, 5) for pid in first] == world.run(recall)


def test_the_rank_knows_its_place_and_its_groups() -> None:
    """rank.dp, rank.cp and rank.group agree with the layout and with the mpu stub."""

    def program(rank: harness.Rank) -> Any:
        from megatron.core import mpu

        groups = [rank.group(name) for name in ("dp", "cp", "dp-cp", "tp", "pp")]
        members = [dist.get_process_group_ranks(group) for group in groups]
        theirs = dist.get_process_group_ranks(mpu.get_data_parallel_group())
        return (rank.dp, rank.cp, rank.world_size), members, theirs

    layout = Layout(2, 2)
    with World(dp=2, cp=2) as world:
        results = world.run(program)
    for rank, (place, members, theirs) in enumerate(results):
        assert place == (rank // 2, rank % 2, 4)
        names = ("dp", "cp", "dp-cp", "tp", "pp")
        assert members == [list(layout.group_of(name, rank)) for name in names]
        assert theirs == members[0]


def test_a_rank_has_the_environment_that_torchrun_would_give_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RANK and its kin are set, inherited ones do not get through, env= adds and removes."""
    monkeypatch.setenv("RANK", "99")
    monkeypatch.setenv("MASTER_ADDR", "far.away")
    monkeypatch.setenv("DROPPED", "1")
    names = [
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "MASTER_ADDR",
        "ADDED",
        "DROPPED",
        "OMP_NUM_THREADS",
    ]

    def program(rank: int) -> list[str | None]:
        return [os.environ.get(name) for name in names]

    with World(dp=2, env={"ADDED": "yes", "DROPPED": None}) as world:
        results = world.run(program)
    assert [[str(r), "2", str(r), "127.0.0.1", "yes", None, "1"] for r in range(2)] == results


def test_ranks_are_seeded_each_in_its_own_way_and_repeatably() -> None:
    """The same numbers in every world, other numbers on every rank."""

    def draw(rank: int) -> tuple[float, float]:
        return random.random(), torch.rand(1).item()

    def drawn() -> list[Any]:
        with World(dp=2) as world:
            return world.run(draw)

    first = drawn()
    assert first == drawn()
    assert first[0] != first[1]


def test_a_rank_computes_on_one_thread_and_dynamo_is_off() -> None:
    """Two cores and many ranks: one thread each, and no compilation unless asked for."""

    def program(rank: int) -> tuple[int, int]:
        compiled = []

        def backend(module: Any, inputs: Any) -> Any:
            compiled.append(module)
            return module.forward

        torch.compile(torch.sin, backend=backend)(torch.ones(2))
        return torch.get_num_threads(), len(compiled)

    with World() as world:
        assert [(1, 0)] == world.run(program)
    with World(threads=2, compile=True) as world:
        assert [(2, 1)] == world.run(program)


def test_each_rank_can_have_a_hash_seed_of_its_own() -> None:
    """A set of strings is then walked in another order on another rank."""

    def program(rank: int) -> tuple[str | None, int]:
        return os.environ.get("PYTHONHASHSEED"), hash("energy")

    with World(dp=2, hash_seed=True) as world:
        (seed0, hash0), (seed1, hash1) = world.run(program)
    assert seed0 != seed1
    assert hash0 != hash1


def test_groups_of_user_code_get_the_timeout_of_the_world() -> None:
    """new_group does not wait its 30 minutes, and keeps a shorter timeout of its own."""

    def program(rank: int) -> list[float]:
        from datetime import timedelta

        made = [dist.new_group([0, 1]), dist.new_group([0, 1], timeout=timedelta(seconds=3))]
        options = [g._get_backend(torch.device("cpu")).options._timeout for g in made]
        return [option.total_seconds() for option in options]

    with World(dp=2, timeout=20) as world:
        assert [[20.0, 3.0]] * 2 == world.run(program)


def test_an_assertion_in_a_rank_keeps_its_rich_text() -> None:
    """The rewritten assert travels along, with pytest's comparison."""

    def program(rank: int) -> None:
        assert [1, 2, 3 + rank] == [1, 2, 3]

    with World(dp=2) as world, pytest.raises(WorldError) as caught:
        world.run(program)
    assert "assert [1, 2, 4] == [1, 2, 3]" in str(caught.value)
    assert "At index 2 diff: 4 != 3" in str(caught.value)


def test_what_a_rank_prints_and_logs_is_kept_apart_by_rank() -> None:
    """stdout, stderr, what C code prints, and log records; but not what gloo prints by itself."""

    def program(rank: int) -> None:
        print(f"out {rank}")
        print(f"err {rank}", file=sys.stderr)
        logging.getLogger("mine").warning("log %d", rank)
        os.write(1, b"raw\n")
        # As gloo of torch 2.8 does.
        os.write(1, b"[Gloo] Rank 0 is connected to 1 peer ranks. Expected: 1\n")
        raise RuntimeError("to see it")

    with World(dp=2) as world, pytest.raises(WorldError) as caught:
        world.run(program)
    for rank, streams in enumerate(caught.value.output):
        assert f"out {rank}\nraw\n" == streams["stdout"]
        assert f"err {rank}\n" in streams["stderr"]
        assert f"log {rank}" in streams["log"]


def test_a_flood_of_output_neither_blocks_a_rank_nor_delays_the_verdict() -> None:
    """30 MB of output, then a skip: the head and the tail are kept, the verdict is quick."""

    def program(rank: int) -> None:
        for number in range(30_000):
            print(f"{number:06d}", "x" * 1000)
        if rank == 0:
            dist.all_reduce(torch.ones(1))

    with World(dp=2) as world, pytest.raises(WorldError) as caught:
        world.run(program)
    assert caught.value.findings[0].kind == "missing_participant"
    assert caught.value.seconds_to_verdict < 1.0
    text = caught.value.output[1]["stdout"]
    assert text.startswith("000000 x")
    assert "029999 x" in text
    assert "bytes left out" in text
    assert len(text) < 100_000


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("dp", True),
        ("cp", True),
        ("dp-cp", True),
        ("tp", True),
        ("pp", True),
        ("cp", False),
        ("pp", False),
    ],
)
def test_a_message_on_a_group_of_the_grid_waits_for_nobody_to_connect(
    name: str, record: bool
) -> None:
    """A send is issued and other things are done first, by both: no group connects in the call."""

    def program(rank: harness.Rank) -> list[float]:
        group = rank.group(name)
        size, place = dist.get_world_size(group), dist.get_rank(group)
        following = dist.get_global_rank(group, (place + 1) % size)
        before = dist.get_global_rank(group, (place - 1) % size)
        found = torch.zeros(2)
        if rank % 2:
            dist.barrier()
        sent = dist.isend(torch.full((2,), float(rank)), dst=following, group=group, tag=5)
        got = dist.irecv(found, src=before, group=group, tag=5)
        assert sent is not None
        assert got is not None
        if rank % 2 == 0:
            dist.barrier()
        got.wait()
        sent.wait()
        return [found[0].item(), float(before)]

    axes: dict[str, Any] = {"dp-cp": {"dp": 2, "cp": 2}}.get(name, {name: 4})
    with World(**axes, record=record) as world:
        for found, expected in world.run(program):
            assert found == expected


def test_messages_of_two_groups_between_the_same_ranks_are_kept_apart() -> None:
    """The same two ranks, the same tag, two groups, received in the other order."""

    def program(rank: harness.Rank) -> list[float]:
        groups = [rank.group("dp"), rank.group("dp-cp"), None]
        if rank == 0:
            works = [
                dist.isend(torch.tensor([float(n)]), dst=1, group=group, tag=1)
                for n, group in enumerate(groups)
            ]
            for work in works:
                assert work is not None
                work.wait()
            return []
        found = [torch.zeros(1) for _ in groups]
        for buffer, group in reversed(list(zip(found, groups, strict=True))):
            dist.recv(buffer, src=0, group=group, tag=1)
        return [buffer.item() for buffer in found]

    with World(2) as world:
        assert world.run(program) == [[], [0.0, 1.0, 2.0]]


def test_a_message_from_anyone_in_a_group_names_its_sender() -> None:
    """torch gives the global rank of the sender, in a group whose places are other numbers."""

    def program(rank: harness.Rank) -> int | None:
        group = rank.group("dp")  # of 1 and 3
        if rank == 3:
            dist.send(torch.ones(1), dst=1, group=group)
        if rank == 1:
            return dist.recv(torch.zeros(1), group=group)
        return None

    with World(2, 2) as world:
        assert world.run(program) == [None, 3, None, None]


def test_no_write_to_the_store_of_a_world_is_lost() -> None:
    """Ranks that write at once do not overwrite one another, and the next run has a store too."""

    def count(rank: int) -> int:
        from torch.distributed import distributed_c10d

        store = distributed_c10d._get_default_store()
        for _ in range(100):
            store.add("count", 1)
        dist.barrier()
        return store.add("count", 0)

    with World(4) as world:
        assert world.run(count) == [400] * 4
        assert world.run(count) == [800] * 4


def test_two_worlds_can_be_alive_at_once() -> None:
    """Each has its own ranks and its own rendezvous."""

    def total(rank: int) -> float:
        value = torch.ones(1)
        dist.all_reduce(value)
        return value.item()

    with World(dp=2) as small, World(dp=3) as large:
        assert [3.0] * 3 == large.run(total)
        assert [2.0] * 2 == small.run(total)


def test_a_function_that_destroys_the_default_group_leaves_a_usable_world() -> None:
    """Scripts end with destroy_process_group; the next run has its groups again."""

    def script(rank: harness.Rank) -> float:
        value = torch.ones(1)
        dist.all_reduce(value, group=rank.group("dp"))
        dist.destroy_process_group()
        return value.item()

    with World(dp=2) as world:
        assert [2.0, 2.0] == world.run(script)
        assert [2.0, 2.0] == world.run(script)


def test_what_cannot_be_sent_is_named() -> None:
    """An argument that cannot be pickled: one clear TypeError, and the world lives on."""
    with World() as world:
        with pytest.raises(TypeError, match=r"argument 1 of .*cannot be sent to the ranks"):
            world.run(lambda rank, lock: None, __import__("threading").Lock())
        with pytest.raises(TypeError, match="a World cannot be sent into its own ranks"):
            world.run(lambda rank: world.world_size)
        assert [0] == world.run(int)


def test_what_cannot_be_sent_back_is_named() -> None:
    """A result that cannot be pickled fails the run and says so."""
    with World() as world, pytest.raises(WorldError, match="cannot be sent back"):
        world.run(lambda rank: __import__("threading").Lock())


def test_a_world_is_refused_under_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of torchrun starts no ranks of its own."""
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    with pytest.raises(RuntimeError, match="started by torchrun"):
        World().start()


def test_a_world_is_refused_inside_a_rank() -> None:
    """A rank starts no world."""

    def program(rank: int) -> str:
        try:
            World().start()
        except RuntimeError as error:
            return str(error)
        return "it started"

    with World() as world:
        assert "cannot be started inside a rank" in world.run(program)[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dp": 0}, "dp"),
        ({"dp": 2.0}, "dp"),
        ({"dp": 2, "ep": 3}, "ep"),
        ({"timeout": 0}, "timeout: a number of seconds above 0"),
        ({"timeout": "10"}, "timeout: seconds as a number"),
        ({"threads": 0}, "threads: at least 1"),
        ({"env": {"A": 1}}, "env: names and values are text"),
        ({"order": "tp-dp"}, "order"),
    ],
)
def test_a_bad_option_is_refused_before_anything_starts(
    options: dict[str, Any], message: str
) -> None:
    """The error names the option."""
    with pytest.raises((ValueError, TypeError), match=message):
        World(**options)


def test_a_closed_world_says_so() -> None:
    """A run after the end is refused with a reason."""
    world = World()
    world.run(int)
    world.close()
    with pytest.raises(RuntimeError, match="this world has been closed; start a new one"):
        world.run(int)


def test_a_warning_points_at_the_line_that_ran_the_function() -> None:
    """Not at a line of the harness, and so that it can be filtered by the module of the test."""

    def shapes(rank: int) -> None:
        dist.all_reduce(torch.ones((2, 3) if rank else (3, 2)))

    with World(dp=2) as world, pytest.warns(harness.WorldWarning, match="all_reduce") as caught:
        world.run(shapes)
    (warning,) = caught
    assert __file__ == warning.filename
    assert "world.run(shapes)" == linecache.getline(__file__, warning.lineno).strip()
