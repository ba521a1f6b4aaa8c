"""Messages without a partner, or with one that does not fit."""

from __future__ import annotations

from .program import barrier, clean, fails, later, only, program, recv, send, wait


def test_a_receive_without_a_send() -> None:
    """C01: the rank that ended without sending is at fault."""
    found = only(program([recv(1, "t.py:3")], []))
    assert (found.kind, found.ranks, found.op) == ("unmatched_p2p", (1,), "recv")
    assert found.summary == (
        "unmatched receive: rank 0 made recv(src=1, float32[4]) at t.py:3, but rank 1 never "
        "posted the send, and has returned"
    )
    assert clean(program([recv(1, "t.py:3")], [send(0, "t.py:5")]))


def test_a_send_without_a_receive() -> None:
    """C02: a small message counts as well."""
    found = only(program([send(1, "t.py:3", shape=(1,))], []))
    assert (found.kind, found.ranks, found.op) == ("unmatched_p2p", (1,), "send")


def test_a_send_that_was_never_waited_and_never_received() -> None:
    """An isend whose message nobody took is told at the end."""
    found = only(program([later(send(1, "t.py:3"), "s")], []))
    assert (found.kind, found.ranks) == ("unmatched_p2p", (1,))


def test_tags_that_differ() -> None:
    """C05: both tags, both lines, both ranks."""
    found = only(program([send(1, "t.py:3", tag=1)], [recv(0, "t.py:5", tag=2)]))
    assert (found.kind, found.detail, found.ranks) == ("unmatched_p2p", "tag", (0, 1))
    assert "with tag 1 at t.py:3" in found.summary
    assert "with tag 2 at t.py:5" in found.summary
    assert clean(program([send(1, "t.py:3", tag=2)], [recv(0, "t.py:5", tag=2)]))


def test_another_dtype_is_received() -> None:
    """C06: float32 sent, int32 received."""
    found = only(program([send(1, "t.py:3")], [recv(0, "t.py:5", dtype="int32")]))
    assert (found.kind, found.detail, found.ranks) == ("argument_mismatch", "dtype", (0, 1))


def test_another_size_is_received() -> None:
    """C07: larger or smaller."""
    for size in (2, 8):
        found = only(program([send(1, "t.py:3")], [recv(0, "t.py:5", shape=(size,))]))
        assert (found.kind, found.detail) == ("argument_mismatch", "numel")
    assert clean(program([send(1, "t.py:3")], [recv(0, "t.py:5", shape=(2, 2))]))


def test_everybody_receives_from_the_wrong_neighbour() -> None:
    """C08: messages are under way, but not from the rank that is listened to."""
    ranks = [
        [
            later(send((r + 1) % 3, "ring.py:3"), "s"),
            recv((r + 1) % 3, "ring.py:4"),
            wait("s", "ring.py:5"),
        ]
        for r in range(3)
    ]
    found = only(program(*ranks))
    assert (found.kind, found.detail, found.ranks) == ("unmatched_p2p", "peer", (0, 1, 2))
    assert "rank 0 receives from rank 1" in found.summary


def test_one_operation_missing_in_a_batch() -> None:
    """C12: batch_isend_irecv with a receive left out."""
    full = [later(send(1, "t.py:3"), "s"), later(recv(1, "t.py:3"), "r")]
    other = [later(send(0, "t.py:3"), "s"), later(recv(0, "t.py:3"), "r")]
    ends = [wait("s", "t.py:5"), wait("r", "t.py:5")]
    found = only(program([*full, *ends], [other[0], wait("s", "t.py:5")]))
    assert (found.kind, found.ranks) == ("unmatched_p2p", (1,))
    assert clean(program([*full, *ends], [*other, *ends]))


def test_a_receive_from_any_source() -> None:
    """C55: whoever sends, the receives are served."""
    hub = [recv(None, "t.py:3"), recv(None, "t.py:3")]
    found = only(program(hub, [send(0, "t.py:5")], [send(0, "t.py:5")]))
    assert (found.kind, found.level) == ("message_race", "warning")
    assert clean(program(hub, [send(0, "t.py:5"), send(0, "t.py:6")]))


def test_a_receive_from_any_source_that_nobody_serves() -> None:
    """All possible senders have ended."""
    found = only(program([recv(None, "t.py:3")], [], []))
    assert (found.kind, found.ranks) == ("unmatched_p2p", (1, 2))


def test_messages_between_two_of_three_ranks_and_a_barrier() -> None:
    """C53, C54: p2p does not count among the collectives of the group."""
    end = barrier("t.py:9")
    assert clean(program([send(1, "t.py:3"), end], [recv(0, "t.py:5"), end], [end]))


def test_streams_of_two_tags_are_apart() -> None:
    """Messages of one pair with two tags may be received in the other order when async."""
    one = [later(send(1, "t.py:3", tag=1), "a"), later(send(1, "t.py:4", tag=2), "b")]
    two = [recv(0, "t.py:6", tag=2), recv(0, "t.py:7", tag=1)]
    assert clean(program([*one, wait("a", "t.py:5"), wait("b", "t.py:5")], two))


def test_a_sender_that_leaves_with_an_open_isend() -> None:
    """R20: the receive has its send, and yet nobody knows that it went out in time."""
    gone = later(send(1, "t.py:3"), "s")
    broken = [recv(0, "t.py:5"), fails("RuntimeError", "Connection closed by peer")]
    for receiver in (broken[:1], broken):
        found = only(program([gone], receiver))
        assert (found.kind, found.ranks) == ("work_not_waited", (0,))
        assert found.sites[0] == "t.py:3"
    assert clean(program([gone, wait("s", "t.py:4")], [recv(0, "t.py:5")]))
