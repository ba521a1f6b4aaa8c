"""Rank arithmetic: groups, names, refusals, and what a rank knows of itself."""

from __future__ import annotations

import copy
import itertools
import pickle
import subprocess
import sys
from typing import Any

import pytest

from harness.layout import Layout, Rank, canonical_name, factorizations


def test_context_parallel_ranks_are_consecutive() -> None:
    """Without tp, a cp group is consecutive ranks and a dp group strides over them."""
    layout = Layout(dp=2, cp=2)
    assert ((0, 1), (2, 3)) == layout.groups("cp")
    assert ((0, 2), (1, 3)) == layout.groups("dp")
    assert ((0, 1, 2, 3),) == layout.groups("dp-cp")


def test_groups_of_a_world_with_tensor_parallelism() -> None:
    """World 8 with tp 2 and cp 2 has the groups that Megatron documents."""
    layout = Layout(dp=2, cp=2, tp=2)
    assert ((0, 1), (2, 3), (4, 5), (6, 7)) == layout.groups("tp")
    assert ((0, 2), (1, 3), (4, 6), (5, 7)) == layout.groups("cp")
    assert ((0, 4), (1, 5), (2, 6), (3, 7)) == layout.groups("dp")
    assert ((0, 2, 4, 6), (1, 3, 5, 7)) == layout.groups("dp-cp")


def test_order_with_dp_last_puts_pipelines_closer() -> None:
    """In "tp-cp-ep-pp-dp" neighbouring stages are TP*CP ranks apart."""
    layout = Layout(dp=2, tp=2, pp=2, order="tp-cp-ep-pp-dp")
    assert ((0, 2), (1, 3), (4, 6), (5, 7)) == layout.groups("pp")
    assert ((0, 4), (1, 5), (2, 6), (3, 7)) == layout.groups("dp")


def test_expert_grid_divides_the_ranks_anew() -> None:
    """ep and etp regroup the ranks of a stage, and edp is what is left."""
    layout = Layout(dp=4, tp=2, ep=2, etp=1)
    assert 4 == layout.edp
    assert ((0, 1), (2, 3), (4, 5), (6, 7)) == layout.groups("ep")
    assert ((0, 2, 4, 6), (1, 3, 5, 7)) == layout.groups("edp")
    assert {
        "dp": 1,
        "cp": 0,
        "tp": 1,
        "pp": 0,
        "etp": 0,
        "ep": 1,
        "edp": 1,
    } == layout.coordinates(3)


def test_etp_is_tp_unless_given() -> None:
    """A layout with the default etp equals one that spells it out."""
    assert Layout(dp=2, tp=2, etp=2) == Layout(dp=2, tp=2)


@pytest.mark.parametrize(
    "layout",
    [
        Layout(),
        Layout(dp=3, cp=2),
        Layout(dp=2, cp=2, tp=2, pp=2, ep=4),
        Layout(dp=4, tp=2, pp=2, ep=2, order="tp-cp-ep-dp-pp"),
        Layout(dp=4, pp=3, order="dp-pp-ep-cp-tp"),
    ],
)
def test_groups_partition_the_world(layout: Layout) -> None:
    """Every rank is in exactly one group of each name, with its ranks ascending."""
    everyone = list(range(layout.world_size))
    for name in layout.group_names():
        groups = layout.groups(name)
        assert all(list(ranks) == sorted(ranks) for ranks in groups)
        assert [ranks[0] for ranks in groups] == sorted(ranks[0] for ranks in groups)
        if name not in ("embd", "pos_embd"):
            assert everyone == sorted(itertools.chain.from_iterable(groups))
        for rank in everyone:
            assert [layout.group_of(name, rank)] == [g for g in groups if rank in g] or (
                layout.group_of(name, rank) == ()
            )


def test_embedding_groups_are_the_ends_of_a_pipeline() -> None:
    """The word embedding is on the first and last stage, the position embedding on the first."""
    layout = Layout(pp=4)
    assert ((0, 3),) == layout.groups("embd")
    assert ((0,),) == layout.groups("pos_embd")
    assert () == layout.group_of("embd", 1)


@pytest.mark.parametrize(
    ("layout", "ranks", "name"),
    [
        (Layout(dp=2, cp=2), [0, 1, 2, 3], "dp-cp"),
        (Layout(dp=2, cp=2), [3, 1], "dp"),
        (Layout(dp=2, cp=2), [0, 1], "cp"),
        (Layout(dp=2), [0, 1], "dp"),
        (Layout(dp=2, tp=2), [0, 1, 2, 3], "tp-dp"),
        (Layout(dp=4, ep=2), [2, 3], "ep"),
        (Layout(dp=4, ep=2), [1, 3], "edp"),
        (Layout(pp=4), [0, 3], "embd"),
        (Layout(dp=2, cp=2), [1, 2], None),
        (Layout(dp=2, cp=2), [0, 1, 2], None),
        (Layout(dp=2, pp=2), [0, 1, 2, 3], None),
        (Layout(dp=2), [], None),
        (Layout(dp=2), [5, 6], None),
    ],
)
def test_name_of_a_set_of_ranks(layout: Layout, ranks: list[int], name: str | None) -> None:
    """A set of ranks has the usual name of the group it is, or none."""
    assert name == layout.name_of(ranks)


def test_a_name_may_list_its_axes_in_any_order() -> None:
    """ "cp-dp" means "dp-cp", and Megatron's "tp-ep" is on the expert grid."""
    assert "dp-cp" == canonical_name("cp-dp")
    assert "etp-ep" == canonical_name("tp-ep")
    assert "etp-ep-pp" == canonical_name("pp-ep-tp")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dp_cp", 'no group is named "dp_cp"; did you mean "dp-cp"? Groups: dp, cp, tp'),
        ("dp-pp", 'no group is named "dp-pp"'),
        ("dp-dp", 'no group is named "dp-dp"'),
    ],
)
def test_unknown_group_name_lists_the_names(name: str, message: str) -> None:
    """A wrong group name is refused with the nearest one and the list."""
    with pytest.raises(ValueError, match="no group is named") as refused:
        Layout(dp=2).groups(name)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"dp": 0}, ValueError, "dp must be an int of at least 1, got 0; dp=1 means that"),
        ({"pp": -2}, ValueError, "pp must be an int of at least 1, got -2"),
        ({"cp": True}, TypeError, "cp must be an int of at least 1, got True, which is a bool"),
        ({"tp": 2.0}, TypeError, "tp must be an int of at least 1, got 2.0, which is a float"),
        ({"ep": None}, TypeError, "ep must be an int of at least 1, got None"),
        ({"etp": "2"}, TypeError, "etp must be an int of at least 1, got '2', which is a str"),
        (
            {"dp": 2, "cp": 2, "ep": 3},
            ValueError,
            "the expert grid needs a world size that etp*ep*pp = 1*3*1 = 3 divides (etp is tp = 1 "
            "unless given), but the world size is dp*cp*tp*pp = 2*2*1*1 = 4; "
            "with etp=1, ep can be 1, 2, 4",
        ),
        (
            {"dp": 2, "tp": 2, "etp": 3},
            ValueError,
            "the expert grid needs a world size that etp*ep*pp = 3*1*1 = 3 divides, but the world "
            "size is dp*cp*tp*pp = 2*1*2*1 = 4; no ep fits: etp=3 must divide the dp*cp*tp = 4 "
            "ranks of a stage",
        ),
        ({"order": "tp-cp-ep-dp"}, ValueError, '"pp" is missing; name tp, cp, ep, dp and pp once'),
        ({"order": "tp-cp-ep-dp-pp-dp"}, ValueError, '"dp" is named twice'),
        ({"order": "tp,cp"}, ValueError, 'order "tp,cp" cannot be used: "tp,cp" is not an axis'),
        ({"order": 3}, TypeError, 'order must be a string such as "tp-cp-ep-dp-pp", got 3'),
        (
            {"dp": 2, "cp": 2, "pp": 2, "order": "tp-cp-ep-pp-dp"},
            ValueError,
            "dp = 2 and world size/(etp*ep*pp) = 8/(1*1*2) = 4; make etp*ep equal to tp*cp = 2",
        ),
        (
            {"tp": 2, "cp": 2, "pp": 2, "etp": 4, "order": "tp-pp-cp-ep-dp"},
            ValueError,
            "on the dense grid consecutive stages are 2 ranks apart",
        ),
    ],
)
def test_impossible_shapes_are_refused_with_the_sum(
    arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    """A shape that cannot be is refused, naming the option and writing out the numbers."""
    with pytest.raises(kind) as refused:
        Layout(**arguments)
    assert message in str(refused.value)


@pytest.mark.parametrize("rank", [-1, 4])
def test_a_rank_outside_the_world_is_refused(rank: int) -> None:
    """A rank that the world does not have is refused with the world's size."""
    with pytest.raises(ValueError, match="is not in this world") as refused:
        Rank(rank, Layout(dp=2, cp=2))
    assert (
        f"rank {rank} is not in this world: its size is dp*cp*tp*pp = 2*2*1*1 = 4, "
        "so ranks go from 0 to 3"
    ) == str(refused.value)


def test_rank_is_an_int_that_knows_its_place() -> None:
    """A Rank counts, prints and formats as an int, and has its coordinates."""
    rank = Rank(5, Layout(dp=2, cp=2, tp=2, ep=2))
    assert (5, "5", "05", 6) == (rank, repr(rank), f"{rank:02d}", rank + 1)
    assert (1, 0, 1, 0, 0, 8) == (rank.dp, rank.cp, rank.tp, rank.pp, rank.ep, rank.world_size)


def test_rank_cannot_be_changed() -> None:
    """The coordinates of a rank are read-only."""
    rank = Rank(0, Layout(dp=2))
    with pytest.raises(AttributeError):
        rank.dp = 1  # type: ignore[misc] # that is the point


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))]
)
def test_rank_survives_copying_and_pickling(copied: Any) -> None:
    """A rank that is sent to another process is still a rank of its layout."""
    rank = Rank(3, Layout(dp=2, cp=2, tp=2, etp=1))
    assert (3, Rank, rank.layout) == (copied(rank), type(copied(rank)), copied(rank).layout)


def test_factorizations_are_all_and_ascending() -> None:
    """Every (dp, cp) with that product is there once, in ascending order."""
    assert [(1, 4), (2, 2), (4, 1)] == factorizations(4)
    assert [(1,)] == factorizations(1, ("dp",))
    assert [(1, 1, 3), (1, 3, 1), (3, 1, 1)] == factorizations(3, ("dp", "cp", "tp"))
    sixteen = factorizations(16, ("dp", "cp", "tp", "pp"))
    assert (sorted(set(sixteen)), 35) == (sixteen, len(sixteen))


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((0,), ValueError, "n must be an int of at least 1, got 0"),
        ((2.0,), TypeError, "n must be an int of at least 1, got 2.0"),
        ((4, ()), ValueError, "axes is empty"),
        ((4, ("dp", "ep")), ValueError, 'axes contains "ep", which is no factor of the world size'),
        ((4, ("dp", "xp")), ValueError, "axes contains 'xp'"),
        ((4, ("dp", "dp")), ValueError, "names an axis twice"),
    ],
)
def test_impossible_factorizations_are_refused(
    arguments: tuple[Any, ...], kind: type[Exception], message: str
) -> None:
    """A wrong number or axis is refused by name."""
    with pytest.raises(kind) as refused:
        factorizations(*arguments)
    assert message in str(refused.value)


def test_layout_and_stub_import_no_torch() -> None:
    """Importing the layout and the stub loads no torch, so that the plugin can."""
    code = (
        "import sys, harness.layout, harness.mpu, harness.mpu._parallel_state\n"
        "harness.layout.Rank(1, harness.layout.Layout(dp=2)).dp\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False)
    assert 0 == done.returncode
