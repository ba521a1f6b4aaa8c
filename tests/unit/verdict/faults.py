"""Small faulty programs for the golden texts: at least one for each kind of finding."""

from __future__ import annotations

from collections.abc import Callable

from harness.explain import Divergence, Explanation, Way

from .program import (
    Program,
    Step,
    ar,
    at,
    barrier,
    call,
    destroy,
    ends,
    expect,
    fails,
    later,
    made,
    new_group,
    outside,
    program,
    raises,
    recv,
    same,
    send,
    tensor,
    touch,
    unchanged,
    wait,
)

WHITEN = "rl/loss.py:41 in masked_whiten < rl/train.py:88 in step [batch=2] < test_rl.py:12 in main"
LINES = {
    ("rl/loss.py", 30): "dist.all_reduce(norm, group=group)",
    ("rl/loss.py", 40): "dist.all_reduce(count, group=group)",
    ("rl/loss.py", 41): "dist.all_reduce(stats, group=group)",
    ("rl/loss.py", 44): "dist.barrier(group=group)",
    ("rl/loss.py", 47): "dist.all_reduce(value)",
    ("rl/loss.py", 52): "dist.all_gather(parts, status)",
    ("rl/loss.py", 60): "work = dist.all_reduce(grad, async_op=True)",
    ("rl/loss.py", 61): "grad.mul_(scale)",
    ("rl/loss.py", 62): "work.wait()",
    ("rl/loss.py", 70): 'harness.expect("loss", loss, reference)',
    ("rl/loss.py", 72): 'harness.expect_same("norm", norm, over="dp")',
    ("rl/loss.py", 74): 'harness.unchanged("kl", log["kl"])',
    ("rl/train.py", 88): "advantages = masked_whiten(rewards, mask)",
    ("rl/train.py", 90): "wait_for_all()",
    ("rl/train.py", 95): "optimizer.step()",
    ("rl/ckpt.py", 5): "dist.barrier()",
    ("rl/ckpt.py", 9): "dist.barrier()",
    ("rl/data.py", 12): "raise ValueError(f'bad row {row}')",
    ("rl/groups.py", 3): "group = dist.new_group([0, 1])",
    ("rl/groups.py", 8): "dist.destroy_process_group(group)",
    ("rl/groups.py", 9): "dist.all_reduce(x, group=group)",
    ("rl/moe.py", 7): "dist.all_to_all_single(out, tokens, received, sent)",
    ("rl/pp.py", 7): "dist.send(x, peer)",
    ("rl/pp.py", 8): "dist.recv(x, peer)",
    ("rl/pp.py", 9): "dist.isend(x, (rank + 1) % size)",
    ("rl/pp.py", 10): "dist.recv(x, (rank + 1) % size)",
    ("rl/pp.py", 12): "dist.recv(x)",
    ("rl/dist_utils.py", 3): "dist.all_reduce(x)",
    ("test_rl.py", 12): "step(rank)",
    ("test_rl.py", 20): "save(model)",
    ("test_rl.py", 21): "finalize(model)",
}

TWO = {"dp-cp": (0, 1), "pp": (0, 1)}
STEP = "rl/train.py:88 in step < test_rl.py:12"


def skip() -> Program:
    """A whitening helper that rank 1 does not enter."""
    start, whiten = ar("rl/loss.py:40 in masked_whiten", group="dp-cp"), ar(WHITEN, group="dp-cp")
    return program([start, whiten], [start], groups=TWO)


def skip_in_a_loop() -> Program:
    """One pass of eight is left out on rank 1: the calls that follow pair one off."""
    passes = [ar(f"rl/loss.py:41 in masked_whiten < rl/train.py:88 [batch={i}]") for i in range(8)]
    return program(passes, [*passes[:5], *passes[6:]], passes)


def shifted() -> Program:
    """R01: the save barrier pairs with another rank's finalize barrier."""
    save = barrier("rl/ckpt.py:5 in save < test_rl.py:20 {19.0}")
    finalize = barrier("rl/ckpt.py:9 in finalize < test_rl.py:21")
    return program([save, finalize], [finalize])


def many_ranks() -> Program:
    """Two of 64 ranks leave a barrier out."""
    end = barrier("rl/loss.py:44 in sync < rl/train.py:90 in step < test_rl.py:12")
    return program(*[[] if rank in (5, 17) else [end] for rank in range(64)])


def every_other_rank() -> Program:
    """Sixteen ranks that are no row of numbers, and names that fill the line."""
    place = "rl/models/attention/ring_exchange_with_overlap.py:1041 in exchange_keys_and_values"
    steps = [ar("rl/loss.py:40"), ar(f"{place} < {STEP}", shape=(128, 4096, 16, 2))]
    return program(*[steps[: 1 + rank % 2] for rank in range(32)])


def connection_closed() -> Program:
    """An exception on rank 1; rank 0's call fails for it."""
    message = "[../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4242"
    lost = raises("RuntimeError", message, "rl/loss.py:44 in sync < test_rl.py:12", inside=True)
    waits = barrier("rl/loss.py:44 in sync < test_rl.py:12")
    bad = raises("ValueError", "bad row 7", "rl/data.py:12 in load < test_rl.py:12")
    return program([waits, fails("RuntimeError", message), lost], [bad])


def many_follow() -> Program:
    """An exception on one of six ranks, and an error of every other one that follows from it."""
    message = "Connection closed by peer"
    lost = raises("RuntimeError", message, "rl/loss.py:44 in sync < test_rl.py:12", inside=True)
    first, waits = ar("rl/loss.py:40"), barrier("rl/loss.py:44 in sync < test_rl.py:12")
    bad = raises("ValueError", "bad row 7", "rl/data.py:12 in load < test_rl.py:12")
    others = [[first, waits, fails("RuntimeError", message), lost]] * 5
    return program([first, bad], *others)


def cleanup() -> Program:
    """A barrier in a finally block, made with an exception under way."""
    stray = barrier("rl/ckpt.py:9 in finalize < test_rl.py:21", during="OSError: disk full")
    return program(
        [ar("rl/loss.py:41 in loss < test_rl.py:12")],
        [Step(**{**vars(stray), "raised_at": "rl/ckpt.py:4 in save"})],
    )


def exit_code() -> Program:
    """Rank 1 leaves by os._exit."""
    return program([ar(WHITEN)], [ends("died", "exit code 3")])


def reduce_ops() -> Program:
    """SUM on three ranks, MAX on one."""
    steps = [ar(WHITEN, "MAX" if rank == 2 else "SUM") for rank in range(4)]
    return program(*[[step] for step in steps])


def roots() -> Program:
    """Each rank broadcasts from itself."""
    steps = [call("broadcast", f"rl/loss.py:41 in share < {STEP}", root=r) for r in range(2)]
    return program(*[[ar("rl/loss.py:40"), step] for step in steps])


def dtypes() -> Program:
    """float32 on one rank, float64 on the other."""
    kinds = "float32", "float64"
    return program(*[[ar(f"rl/loss.py:41 < {STEP}", dtype=kind)] for kind in kinds])


def sizes() -> Program:
    """Other sizes, as every rank has another number of tokens."""
    return program(*[[ar(f"rl/loss.py:41 < {STEP}", shape=(n,))] for n in (7, 9, 7)])


def splits() -> Program:
    """A receiver expects another number than is sent to it."""

    def exchange(sent: tuple[int, ...], expected: tuple[int, ...]) -> Step:
        return call(
            "all_to_all_single",
            f"rl/moe.py:7 in dispatch < {STEP}",
            (sum(sent), 2),
            outputs=(tensor((sum(expected), 2)),),
            input_splits=sent,
            output_splits=expected,
        )

    return program([exchange((1, 3), (1, 2))], [exchange((2, 1), (2, 1))])


def shapes() -> Program:
    """As many elements in another shape: a warning."""
    a, b = (ar("rl/loss.py:41", shape=shape) for shape in ((2, 3), (3, 2)))
    return program([a], [b])


def operations() -> Program:
    """Two operations meet."""
    first = ar("rl/loss.py:40 in status < test_rl.py:12 {11.0}")
    gather = call("all_gather", "rl/loss.py:52 in status < test_rl.py:12 {11.0}")
    return program([first, gather, barrier("rl/loss.py:44")], [first, barrier("rl/loss.py:44")])


def order() -> Program:
    """Gradients are reduced in another order on rank 1, all of one shape."""
    a, b, c = (ar(f"rl/loss.py:47 in sync [name={n}] < {STEP}") for n in ("w1", "w2", "bias"))
    return program([a, b, c], [b, a, c], [a, b, c])


def helper() -> Program:
    """One helper called from three lines; rank 1 is a call behind."""
    calls = [ar(f"rl/dist_utils.py:3 in mean < rl/train.py:{n}") for n in (10, 11, 12)]
    last = ar("rl/dist_utils.py:3 in mean < rl/train.py:15 {14.0}")
    return program(calls, [*calls[1:], last])


def labels() -> Program:
    """Two metrics joined in one call."""
    loss = ar("rl/loss.py:47", label="val_loss")
    even, odd = (ar("rl/loss.py:47", label=f"val_{n}") for n in ("even", "odd"))
    return program([loss, even], [loss, odd])


def other_group() -> Program:
    """One line is given the world on one rank, the dp group on the other."""
    place = f"rl/loss.py:41 in mean < {STEP}"
    return program([ar(place)], [ar(place, group="dp")], groups={"dp": (0, 1)})


def forgotten_group() -> Program:
    """The ranks of one dp group call on the world."""
    place = f"rl/loss.py:41 in mean < {STEP}"
    return program(
        [ar(place), barrier("rl/loss.py:44")],
        [barrier("rl/loss.py:44")],
        [ar(place), barrier("rl/loss.py:44")],
        [barrier("rl/loss.py:44")],
        groups={"dp": (0, 2)},
    )


def creation() -> Program:
    """Members only make a group."""
    make = new_group("rl/groups.py:3 in build < test_rl.py:12 {11.0}", [0, 1])
    return program([make], [make], [], [])


def creation_lists() -> Program:
    """Each rank makes the group that it is in."""
    return program(
        *[[new_group("rl/groups.py:3 in build < test_rl.py:12", m)] for m in ([0, 1], [2, 3])]
        + [[new_group("rl/groups.py:3 in build < test_rl.py:12", [0, 1])]] * 2
    )


def not_a_member() -> Program:
    """A call on a group that the rank is not in."""
    place = "rl/groups.py:9 in share < test_rl.py:12"
    groups = {"tp": (0,)}
    return program([ar(place, group="tp")], [outside("all_reduce", place)], groups=groups)


def leak() -> Program:
    """A new group in each step."""
    steps = [made(f"rl/groups.py:3 in build [step={i}]", f"g{i}", (0, 1)) for i in range(12)]
    return program(steps, steps)


def two_groups() -> Program:
    """The groups dp-cp and pp are entered crosswise."""
    a, b = ar("rl/loss.py:41 {40.0}", group="dp-cp"), ar("rl/loss.py:44 {40.1}", group="pp")
    return program([a], [b], groups=TWO)


def three_groups() -> Program:
    """Three ranks, three groups of two: each waits for the next."""
    groups = {"a": (0, 1), "b": (1, 2), "c": (0, 2)}
    orders = (("a", "c"), ("b", "a"), ("c", "b"))
    return program(
        *[[ar("rl/loss.py:41 in reduce []", group=g) for g in order_] for order_ in orders],
        groups=groups,
    )


def messages() -> Program:
    """Head to head sends."""
    return program(
        [send(1, "rl/pp.py:7"), recv(1, "rl/pp.py:8")],
        [send(0, "rl/pp.py:7"), recv(0, "rl/pp.py:8")],
    )


def receives() -> Program:
    """Head to head receives."""
    steps = [[ar("rl/loss.py:40"), recv(1 - r, "rl/pp.py:8"), send(1 - r, "rl/pp.py:7")]
             for r in range(2)]  # fmt: skip
    return program(*steps)


def no_send() -> Program:
    """A receive that nobody serves."""
    one = send(0, "rl/pp.py:7")
    return program([recv(1, "rl/pp.py:8 [i=0]"), recv(1, "rl/pp.py:8 [i=1]")], [one])


def neighbour() -> Program:
    """All listen to the wrong neighbour of a ring."""
    return program(
        *[
            [
                later(send((r + 1) % 3, "rl/pp.py:9"), "s"),
                recv((r + 1) % 3, "rl/pp.py:10"),
                wait("s", "rl/pp.py:11"),
            ]
            for r in range(3)
        ]
    )


def tags() -> Program:
    """Tags that differ."""
    return program([send(1, "rl/pp.py:7", tag=1)], [recv(0, "rl/pp.py:8", tag=2)])


def any_source() -> Program:
    """A receive from any source with two senders."""
    hub = [recv(None, "rl/pp.py:12 [i=0]"), recv(None, "rl/pp.py:12 [i=1]")]
    return program(hub, [send(0, "rl/pp.py:7")], [send(0, "rl/pp.py:7")])


def not_waited() -> Program:
    """An async call whose work is dropped."""
    steps = [later(ar(f"rl/loss.py:60 in reduce < {STEP}"), "w"), barrier("rl/loss.py:44")]
    return program(steps, steps)


def in_flight() -> Program:
    """A gradient scaled while it is reduced."""
    work = later(ar("rl/loss.py:60 in reduce", inputs=at(0, 3)), "w")
    steps = [work, touch("w", "written", "rl/loss.py:61 in reduce"), wait("w", "rl/loss.py:62")]
    return program(steps, steps)


def aliases() -> Program:
    """One tensor under two names."""
    count = at(0, 1)
    steps = [ar(f"rl/loss.py:47 in log [name={k}]", inputs=count) for k in ("full", "cond")]
    return program(steps, steps)


def destroyed() -> Program:
    """A group used after its end."""
    steps = [
        ar("rl/loss.py:41", group="dp"),
        destroy("rl/groups.py:8", "dp"),
        ar("rl/groups.py:9", group="dp"),
    ]
    return program(steps, steps, groups={"dp": (0, 1)})


def wrong_value() -> Program:
    """A value that is not its reference."""
    first = ar("rl/loss.py:41")
    wrong = expect("loss", "rl/loss.py:70", "3.0 where 1.5 is expected")
    return program([first, wrong], [first, expect("loss", "rl/loss.py:70")], [first, wrong])


def unlike_values() -> Program:
    """A value that one rank of four has otherwise."""
    steps = [
        same("norm", value, "rl/loss.py:72", "world") for value in ("1.5", "1.5", "2.5", "1.5")
    ]
    return program(*[[ar("rl/loss.py:41"), step] for step in steps])


def mutated() -> Program:
    """A logged value that was overwritten."""
    wrong = unchanged("kl", "rl/loss.py:74", "[0.1, 0.2] has become [0.05, 3.1]")
    return program([wrong], [wrong])


def apart() -> Program:
    """Two faults that have nothing to do with each other."""
    groups = {"dp": (0, 1), "cp": (2, 3)}
    a, b = ar("rl/loss.py:41", group="dp"), barrier("rl/loss.py:44", group="cp")
    return program([a], [], [b], [], groups=groups)


PROGRAMS: dict[str, Callable[[], Program]] = {
    made_.__name__: made_
    for made_ in (
        skip,
        skip_in_a_loop,
        shifted,
        many_ranks,
        every_other_rank,
        connection_closed,
        many_follow,
        cleanup,
        exit_code,
        reduce_ops,
        roots,
        dtypes,
        sizes,
        splits,
        shapes,
        operations,
        order,
        helper,
        labels,
        other_group,
        forgotten_group,
        creation,
        creation_lists,
        not_a_member,
        leak,
        two_groups,
        three_groups,
        messages,
        receives,
        no_send,
        neighbour,
        tags,
        any_source,
        not_waited,
        in_flight,
        aliases,
        destroyed,
        wrong_value,
        unlike_values,
        mutated,
        apart,
    )
}

GUARD = Divergence(
    "rl/loss.py",
    38,
    "masked_whiten",
    "if mask.numel() > 0:",
    "if",
    (
        Way((0,), "True", (("mask.numel()", "150"), ("mask", "float32[150]"))),
        Way((1,), "False", (("mask.numel()", "0"), ("mask", "float32[0]"))),
    ),
)
LONG = Divergence(
    "rl/train.py",
    84,
    "Trainer.step",
    "for batch in itertools.islice(self.loader_of(stage, epoch), self.config.steps_per_epoch):",
    "for",
    (
        Way(
            tuple(range(0, 64, 2)),
            "12 passes",
            (
                ("self.loader_of(stage, epoch)", "DataLoader of 12 batches of 8 sequences each"),
                ("self.config.steps_per_epoch", "100"),
                ("stage", "'train'"),
            ),
        ),
        Way(
            tuple(range(1, 64, 2)),
            "raised StopIteration: the loader is at its end",
            (
                ("self.loader_of(stage, epoch)", "DataLoader of 11 batches of 8 sequences each"),
                ("self.config.steps_per_epoch", "100"),
                ("stage", "'train'"),
            ),
        ),
    ),
    "on ranks 1, 3, 5, ... the exception is swallowed at rl/train.py:91",
)
EXPLANATIONS = {
    "found": Explanation(GUARD, seconds=0.3),
    "found_long": Explanation(LONG, seconds=0.3),
    "not_found": Explanation(
        None,
        "the fault did not occur again; a race or an unseeded random number may decide it",
        (GUARD, LONG),
        0.4,
    ),
}
"""What a second run may have shown of `skip`."""
