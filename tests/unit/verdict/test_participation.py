"""Ranks that leave a collective out: named where they skipped it, not where somebody waits."""

from __future__ import annotations

from .program import (
    ar,
    barrier,
    call,
    clean,
    compute,
    ends,
    fails,
    later,
    only,
    program,
    raises,
    send,
    verdict,
    wait,
)


def test_a_skip_then_return() -> None:
    """A rank that returns without the last call is told with call, line and who waits."""
    found = only(program([ar("loss.py:40"), ar("loss.py:41")], [ar("loss.py:40")]))
    assert found.kind == "missing_participant"
    assert (found.ranks, found.index, found.op) == ((1,), 2, "all_reduce")
    assert found.summary == (
        "rank-dependent skip: rank 1 of world [0, 1] never made call 2, "
        "all_reduce(SUM, float32[3]) at loss.py:41, and has returned; rank 0 waits there"
    )
    assert clean(
        program([ar("loss.py:40"), ar("loss.py:41")], [ar("loss.py:40"), ar("loss.py:41")])
    )


def test_a_skip_names_the_earlier_barrier_and_not_the_one_where_a_rank_waits() -> None:
    """R01: the save barrier paired with the other's finalize barrier; save was skipped."""
    save = barrier("ckpt.py:5 in save < main.py:20 {19.0}")
    finalize = barrier("ckpt.py:9 in finalize < main.py:21")
    found = only(program([save, finalize], [finalize]))
    assert (found.kind, found.ranks, found.index) == ("missing_participant", (1,), 1)
    assert found.sites == {0: "ckpt.py:5", 1: "ckpt.py:9"}
    assert "save" in found.sides[0].stack[0].function
    assert "rank 0 made it" in found.summary
    assert clean(program([save, finalize], [save, finalize]))


def test_a_metric_that_one_rank_never_gathers() -> None:
    """R02: gathers by name pair up different metrics; the missing name is the first divergence."""

    def gather(name: str) -> str:
        return f"log.py:8 [k={name}]"

    loss = call("all_gather", "log.py:9", ())
    fmt, reward = (call("all_gather", gather(n), ()) for n in ("fmt", "reward"))
    found = only(program([fmt, reward, loss], [reward, loss]))
    assert (found.kind, found.ranks, found.index) == ("missing_participant", (1,), 1)
    assert "k=fmt" in found.summary
    assert any("wrong values" in line for line in found.evidence)
    assert clean(program([fmt, reward, loss], [fmt, reward, loss]))


def test_an_expert_without_tokens_is_not_reduced() -> None:
    """R04: gradients of different experts are added up; the skipped expert is named."""

    def reduce(expert: int) -> str:
        return f"moe.py:4 [e={expert}]"

    found = only(program([ar(reduce(0)), ar(reduce(1))], [ar(reduce(1))]))
    assert (found.kind, found.ranks, found.index) == ("missing_participant", (1,), 1)
    assert "e=0" in found.summary


def test_a_skip_in_the_middle_of_a_loop_is_named_at_its_iteration() -> None:
    """A18: rank 1 leaves out iteration 3 of 8 and ends early."""
    steps = [ar(f"train.py:7 [i={i}]") for i in range(8)]
    found = only(program(steps, steps[:3] + steps[4:]))
    assert (found.kind, found.ranks, found.index) == ("missing_participant", (1,), 4)
    assert "(i=3)" in found.summary
    assert clean(program(steps, steps))


def test_a_skip_in_a_loop_without_a_counter_is_named_as_one_of_its_passes() -> None:
    """In a while loop passes look alike: the last one is named and the doubt is said."""
    loop, after = ar("train.py:7"), ar("train.py:9")
    found = only(program([loop] * 8 + [after], [loop] * 7 + [after]))
    assert (found.kind, found.ranks, found.index) == ("missing_participant", (1,), 8)
    assert any("cannot be told" in line for line in found.evidence)


def test_one_more_barrier_at_the_end() -> None:
    """A05: the rank without the trailing barrier is the one that never made it."""
    found = only(program([barrier("a.py:1"), barrier("a.py:2")], [barrier("a.py:1")]))
    assert (found.kind, found.ranks, found.index) == ("missing_participant", (1,), 2)


def test_loops_of_different_length() -> None:
    """A06: two passes against three."""
    steps = [ar(f"a.py:3 [i={i}]") for i in range(3)]
    found = only(program(steps[:2], steps))
    assert (found.kind, found.ranks, found.index) == ("missing_participant", (0,), 3)


def test_a_collective_on_rank_0_only() -> None:
    """A10: all ranks but the one that made the call are missing."""
    gather = call("gather", "io.py:4 in save < main.py:9 {8.0}", root=0)
    plain = [ar("main.py:5")]
    found = only(program([*plain, gather], plain, plain, plain))
    assert (found.kind, found.ranks, found.index) == ("missing_participant", (1, 2, 3), 2)


def test_a_rank_that_goes_on_computing_is_late_until_it_ends() -> None:
    """A02: no verdict while the rank may still come; a straggler at the deadline."""
    waiting = program([ar("a.py:3")], [compute()])
    assert verdict(waiting) == []
    found = only(waiting, deadline=True)
    assert (found.kind, found.ranks) == ("straggler", (1,))
    ended = only(program([], [ar("a.py:3")]))
    assert (ended.kind, ended.ranks) == ("missing_participant", (0,))


def test_an_error_that_a_rank_swallowed_does_not_hide_the_cause() -> None:
    """A19: rank 0 catches the error of the failed call and goes on."""
    found = only(
        program(
            [ar("a.py:3"), fails("RuntimeError", "Connection closed by peer"), ar("a.py:8")],
            [],
        )
    )
    assert (found.kind, found.ranks, found.index) == ("missing_participant", (1,), 1)
    assert any("Connection closed by peer" in line for line in found.secondary)


def test_errors_out_of_the_collective_are_secondary() -> None:
    """Connection closed on the innocent rank is folded under the skip."""
    lost = raises("RuntimeError", "[gloo] Connection closed by peer", "a.py:3", inside=True)
    found = only(
        program([ar("a.py:3"), fails("RuntimeError", "[gloo] Connection closed by peer"), lost], [])
    )
    assert (found.kind, found.ranks) == ("missing_participant", (1,))
    assert len([line for line in found.secondary if "Connection closed" in line]) == 1


def test_a_skip_on_one_rank_while_others_wait() -> None:
    """F07: pytest.skip on one rank says so in the verdict."""
    found = only(program([barrier("t.py:4")], [ends("skipped", "no GPU", "t.py:2")]))
    assert (found.kind, found.ranks) == ("missing_participant", (1,))
    assert 'called pytest.skip("no GPU")' in found.summary
    assert clean(program([ends("skipped", "no GPU")], [ends("skipped", "no GPU")]))


def test_the_callers_are_another_group() -> None:
    """R15: the hint that the callers are exactly a known group."""
    groups = {"dp": (1, 2)}
    whiten = ar("whiten.py:6 in whiten < main.py:12 {11.0}")
    found = only(program([], [whiten], [whiten], groups=groups))
    assert (found.kind, found.ranks) == ("missing_participant", (0,))
    assert any("exactly the dp group [1, 2]" in hint for hint in found.hints)
    right = ar("whiten.py:6 in whiten < main.py:12 {11.0}", group="dp")
    assert clean(program([], [right], [right], groups=groups))


def test_a_skipped_reduction_before_a_send() -> None:
    """R05: a rank that went past the all_reduce to a send skipped it; the cycle is stated."""
    clip = ar("opt.py:12 {10.1}")
    found = only(program([send(1, "opt.py:14 {13.0}")], [clip]))
    assert (found.kind, found.ranks, found.index) == ("missing_participant", (0,), 1)
    assert any("rank 0 waits in send(dst=1" in line for line in found.evidence)


def test_a_tensor_parallel_rank_that_skips_its_last_reduction() -> None:
    """E11: the skip in a subgroup is named there although all ranks wait in the world barrier."""
    groups = {"tp": (0, 1), "tp2": (2, 3)}
    done = barrier("main.py:12")
    full = [ar(f"layer.py:5 in forward < main.py:8 [layer={i}]", group="tp") for i in range(3)]
    other = [ar(f"layer.py:5 in forward < main.py:8 [layer={i}]", group="tp2") for i in range(3)]
    found = only(
        program([*full, done], [*full[:2], done], [*other, done], [*other, done], groups=groups)
    )
    assert (found.kind, found.ranks, found.index) == ("missing_participant", (1,), 3)
    assert found.group is not None
    assert found.group.name == "tp"
    assert clean(
        program([*full, done], [*full, done], [*other, done], [*other, done], groups=groups)
    )


def test_a_skip_shown_by_the_habit_of_earlier_passes() -> None:
    """When two operations meet, earlier passes tell which of them was left out."""
    first = [call("all_gather", "t.py:5 [i=0]"), ar("t.py:6 [i=0]")]
    second = [call("all_gather", "t.py:5 [i=1]"), ar("t.py:6 [i=1]")]
    third = [call("all_gather", "t.py:5 [i=2]"), ar("t.py:6 [i=2]")]
    found = only(program([*first, *second, *third], [*first, *second, third[1]]))
    assert (found.kind, found.ranks, found.index) == ("missing_participant", (1,), 5)
    assert found.op == "all_gather"


def test_the_same_skip_in_two_groups_is_one_finding() -> None:
    """The second dp group, faulty in the same way, is told with the first."""
    groups = {"dp": (0, 1), "dp#2": (2, 3)}
    a, b = ar("a.py:3", group="dp"), ar("a.py:3", group="dp#2")
    found = only(program([a], [], [b], [], groups=groups))
    assert (found.kind, found.ranks) == ("missing_participant", (1, 3))
    assert any("likewise" in line and "dp [2, 3]" in line for line in found.evidence)
    assert [side.call != "" for side in found.sides] == [True, False, True, False]


def test_independent_faults_are_told_apart() -> None:
    """Faults of ranks that have nothing to do with each other are separate findings."""
    groups = {"dp": (0, 1), "cp": (2, 3)}
    a, b = ar("a.py:3", group="dp"), barrier("a.py:9", group="cp")
    findings = verdict(program([a], [], [b], [], groups=groups))
    assert [(f.kind, f.ranks) for f in findings] == [
        ("missing_participant", (1,)),
        ("missing_participant", (3,)),
    ]


def test_an_async_call_that_one_rank_never_makes() -> None:
    """A work that is waited later counts from where it was issued."""
    found = only(program([later(ar("a.py:3"), "w"), wait("w", "a.py:9")], []))
    assert (found.kind, found.ranks, found.index) == ("missing_participant", (1,), 1)
