"""Laws of the verdict over generated programs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from .program import (
    Program,
    Step,
    ar,
    arrival,
    at,
    barrier,
    call,
    judged,
    later,
    records,
    recv,
    send,
    wait,
)

laws = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

GROUPS = {
    2: {"A": (0, 1)},
    3: {"A": (0, 1), "B": (1, 2)},
    4: {"A": (0, 2), "B": (1, 3), "C": (2, 3)},
}


@dataclass(frozen=True)
class Phase:
    """One thing that the whole program does: a collective of a group, or a message."""

    group: str
    op: str
    passes: int
    asynchronous: bool
    peers: tuple[int, int] | None = None


@st.composite
def phases(draw: st.DrawFn, world: int) -> Phase:
    """A phase of a correct program."""
    group = draw(st.sampled_from(["world", *GROUPS[world]]))
    members = tuple(range(world)) if group == "world" else GROUPS[world][group]
    op = draw(st.sampled_from(["all_reduce", "all_reduce", "all_gather", "barrier", "p2p"]))
    peers = None
    if op == "p2p":
        src, dst = draw(st.permutations(members))[:2]
        peers = (src, dst)
    return Phase(group, op, draw(st.integers(1, 3)), draw(st.booleans()), peers)


def lay_out(world: int, plan: list[Phase]) -> Program:
    """The steps of every rank: all ranks go through the phases in one order."""
    steps: dict[int, list[Step]] = {rank: [] for rank in range(world)}
    for number, phase in enumerate(plan):
        members = tuple(range(world)) if phase.group == "world" else GROUPS[world][phase.group]
        for one in range(phase.passes):
            place = f"main.py:{10 * number + 10} [i={one}]" if phase.passes > 1 else ""
            place = place or f"main.py:{10 * number + 10}"
            if phase.peers is not None:
                src, dst = phase.peers
                steps[src].append(send(dst, place, group=phase.group))
                steps[dst].append(recv(src, place, group=phase.group))
                continue
            for rank in members:
                made = _collective(phase, place)
                if phase.asynchronous:
                    name = f"w{number}.{one}"
                    steps[rank].append(later(made, name))
                    steps[rank].append(wait(name, f"main.py:{10 * number + 15}"))
                else:
                    steps[rank].append(made)
    return Program(steps, dict(GROUPS[world]))


def _collective(phase: Phase, place: str) -> Step:
    if phase.op == "barrier":
        return barrier(place, group=phase.group)
    if phase.op == "all_reduce":
        return ar(place, group=phase.group)
    return call(phase.op, place, group=phase.group)


@st.composite
def correct(draw: st.DrawFn) -> Program:
    """A correct program of two to four ranks."""
    world = draw(st.integers(2, 4))
    return lay_out(world, draw(st.lists(phases(world), min_size=1, max_size=8)))


@st.composite
def with_a_collective(draw: st.DrawFn) -> tuple[Program, int, int]:
    """A correct program, a rank, and the place of one of its collectives among its steps."""
    program = draw(correct())
    candidates = [
        (rank, place)
        for rank, steps in program.steps.items()
        for place, step in enumerate(steps)
        if step.kind == "call" and len(program.members(step.group)) > 1
    ]
    assume(candidates)
    rank, place = draw(st.sampled_from(candidates))
    return program, rank, place


def index_in_group(program: Program, rank: int, place: int) -> int:
    """The number, from 1, of a rank's collective in its group."""
    steps = program.steps[rank]
    group = steps[place].group
    return sum(s.kind == "call" and s.group == group for s in steps[: place + 1])


def changed(program: Program, rank: int, steps: list[Step]) -> Program:
    """The program with other steps for one rank."""
    return Program({**program.steps, rank: steps}, program.groups)


@laws
@given(correct(), st.integers(0, 1 << 30), st.integers(0, 1 << 30))
def test_a_correct_program_has_no_finding(program: Program, run: int, order: int) -> None:
    """Whatever the interleaving of its ranks and the order in which records arrive."""
    found = arrival(records(program, run), order)
    assert judged(found, program.world_size) == []


@laws
@given(correct(), st.integers(0, 1 << 30), st.integers(0, 200))
def test_a_prefix_of_a_correct_program_has_no_finding(program: Program, run: int, cut: int) -> None:
    """Nothing is claimed half-way, also where records of some ranks are late."""
    found = arrival(records(program, run), run)[:cut]
    assert judged(found, program.world_size) == []


ARMS = ["{10.0}", "{10.1 12.0}", "{10.1 12.1}"]


@st.composite
def branching(draw: st.DrawFn) -> Program:
    """A correct program whose ranks reach each call by arms of their own, in loops or not."""
    world = draw(st.integers(2, 3))
    steps: dict[int, list[Step]] = {rank: [] for rank in range(world)}
    for block in range(draw(st.integers(1, 3))):
        counted = draw(st.booleans())
        passes = draw(st.integers(1, 4))
        sites = draw(st.integers(1, 2))
        for one in range(passes):
            for rank in range(world):
                for site in range(sites):
                    arm = draw(st.integers(0, 2))
                    first = 1000 * block + 100 * site
                    branch = ARMS[arm].replace("10", str(first)).replace("12", str(first + 2))
                    loop = f" [i={one}]" if counted else ""
                    steps[rank].append(ar(f"main.py:{first + 1 + 2 * arm}{loop} {branch}"))
    return Program(steps)


@laws
@given(branching())
def test_ranks_may_reach_a_call_by_other_branches(program: Program) -> None:
    """Whatever arms the ranks take, in counted and uncounted loops: no failure."""
    found = judged(records(program), program.world_size)
    assert [f.summary for f in found if f.level == "error"] == []


@laws
@given(with_a_collective(), st.integers(0, 1 << 30))
def test_a_dropped_call_is_found(case: tuple[Program, int, int], run: int) -> None:
    """Exactly one finding, in that group, at that call, with that rank at fault."""
    program, rank, place = case
    step = program.steps[rank][place]
    steps = list(program.steps[rank])
    del steps[place : place + (2 if step.asynchronous else 1)]
    findings = judged(records(changed(program, rank, steps), run), program.world_size)
    assert len(findings) == 1, [f.summary for f in findings]
    found = findings[0]
    assert found.level == "error"
    assert rank in found.ranks, found.summary
    if found.kind in ("missing_participant", "call_mismatch"):
        assert found.group is not None
        assert found.group.ranks == program.members(step.group), found.summary
        same_line = [s for s in program.steps[rank] if s.place.split()[0] == step.place.split()[0]]
        assert found.index is not None
        first = index_in_group(program, rank, place)
        assert first <= found.index <= first + len(same_line), found.summary


@laws
@given(with_a_collective(), st.sampled_from(["op", "reduce_op", "dtype", "numel"]))
def test_an_altered_call_is_found(case: tuple[Program, int, int], what: str) -> None:
    """Exactly one finding, at that very call, of the kind that fits."""
    program, rank, place = case
    step = program.steps[rank][place]
    assume(what == "op" or step.op != "barrier")
    assume(what != "reduce_op" or step.op == "all_reduce")
    altered = {
        "op": replace(step, op="broadcast", reduce_op=None, root=0),
        "reduce_op": replace(step, reduce_op="MAX"),
        "dtype": replace(step, inputs=call("x", "a.py:1", dtype="int64").inputs),
        "numel": replace(step, inputs=call("x", "a.py:1", (5,)).inputs),
    }[what]
    steps = list(program.steps[rank])
    steps[place] = altered
    findings = judged(records(changed(program, rank, steps)), program.world_size)
    assert len(findings) == 1, [f.summary for f in findings]
    found = findings[0]
    assert found.kind == ("call_mismatch" if what == "op" else "argument_mismatch")
    assert found.detail == {"op": "", "numel": "shape"}.get(what, what)
    assert rank in found.ranks
    assert found.index == index_in_group(program, rank, place)
    assert found.group is not None
    assert found.group.ranks == program.members(step.group)


@laws
@given(with_a_collective(), st.integers(0, 1 << 30))
def test_two_swapped_calls_are_found(case: tuple[Program, int, int], run: int) -> None:
    """Exactly one finding, at the first of the two."""
    program, rank, place = case
    steps = list(program.steps[rank])
    assume(place + 1 < len(steps))
    one, two = steps[place], steps[place + 1]
    assume(two.kind == "call" and one.group == two.group)
    assume(not one.asynchronous and not two.asynchronous)
    # Two passes of one counted line are not told apart from samples in an order of each rank.
    assume(one.place.split()[0] != two.place.split()[0])
    steps[place : place + 2] = [two, one]
    findings = judged(records(changed(program, rank, steps), run), program.world_size)
    assert len(findings) == 1, [f.summary for f in findings]
    found = findings[0]
    assert found.kind in ("misaligned_calls", "call_mismatch", "missing_participant")
    assert rank in found.ranks
    assert found.index == index_in_group(program, rank, place)


@laws
@given(with_a_collective(), st.integers(0, 1 << 30), st.integers(0, 1 << 30))
def test_the_order_of_arrival_does_not_matter(
    case: tuple[Program, int, int], one: int, two: int
) -> None:
    """The same records give the same findings, however ranks are mixed."""
    program, rank, place = case
    steps = list(program.steps[rank])
    del steps[place]
    if steps[place : place + 1] and steps[place].kind == "wait":
        del steps[place]
    found = records(changed(program, rank, steps))
    first = judged(arrival(found, one), program.world_size)
    assert judged(arrival(found, two), program.world_size) == first


@st.composite
def overlapping(draw: st.DrawFn) -> tuple[Program, int]:
    """A correct program of several works in flight at once, and how many there are."""
    world = draw(st.integers(2, 3))
    count = draw(st.integers(1, 5))
    sizes = draw(st.lists(st.integers(1, 4), min_size=count, max_size=count))
    starts = [sum(sizes[:n]) for n in range(count)]
    steps: dict[int, list[Step]] = {}
    for rank in range(world):
        begun = [
            later(ar(f"main.py:{10 + n}", inputs=at(starts[n], sizes[n])), f"w{n}")
            for n in range(count)
        ]
        mine = draw(st.permutations(range(count)))
        waits = [wait(f"w{n}", f"main.py:{30 + n}") for n in mine]
        steps[rank] = [*begun, *waits, barrier("main.py:50")]
    return Program(steps), count


@laws
@given(overlapping(), st.integers(0, 1 << 30), st.integers(0, 1 << 30))
def test_works_may_be_waited_for_in_any_order(
    case: tuple[Program, int], run: int, order: int
) -> None:
    """Disjoint pieces of one storage, several in flight, each waited for once: no finding."""
    program, _ = case
    assert judged(arrival(records(program, run), order), program.world_size) == []


@laws
@given(overlapping(), st.data())
def test_a_dropped_wait_is_found(case: tuple[Program, int], data: st.DataObject) -> None:
    """Exactly one finding: that work, on that rank."""
    program, count = case
    rank = data.draw(st.sampled_from(sorted(program.steps)))
    dropped = data.draw(st.integers(0, count - 1))
    steps = [s for s in program.steps[rank] if not (s.kind == "wait" and s.name == f"w{dropped}")]
    findings = judged(records(changed(program, rank, steps)), program.world_size)
    assert [(f.kind, f.ranks) for f in findings] == [("work_not_waited", (rank,))]
    assert findings[0].sites[rank] == f"main.py:{10 + dropped}"


@laws
@given(overlapping(), st.data())
def test_memory_in_two_works_is_found(case: tuple[Program, int], data: st.DataObject) -> None:
    """One work moved onto the memory of another: exactly one finding, of that rank."""
    program, count = case
    assume(count > 1)
    rank = data.draw(st.sampled_from(sorted(program.steps)))
    one, two = data.draw(st.permutations(range(count)))[:2]
    steps = list(program.steps[rank])
    start = (steps[one].inputs[0].start - 1000) // 4
    steps[two] = replace(steps[two], inputs=at(start, steps[two].inputs[0].shape[0]))
    findings = judged(records(changed(program, rank, steps)), program.world_size)
    assert [(f.kind, f.ranks) for f in findings if f.level == "error"] == [
        ("buffer_hazard", (rank,))
    ]
