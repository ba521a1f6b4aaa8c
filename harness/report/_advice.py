"""What to do about a finding that brings no hint of its own."""

from __future__ import annotations

import os

from harness.explain import Divergence
from harness.verdict import Finding

ARGUMENTS = {
    "reduce_op": "pass the same reduce op on every rank",
    "root": "pass the same src= or dst= on every rank: the global rank of one member",
    "dtype": "convert to one dtype before the call, on every rank",
    "shape": "bring the tensors to one shape first (pad them), or exchange the sizes and use a call "
    "that takes uneven ones",
    "splits": "let what a rank sends to another be what that one expects: exchange the split sizes "
    "first",
}

MESSAGES = {
    "tag": "give the send and its receive one tag",
    "peer": "let each rank receive from the one that sends to it: in a ring, send to rank + 1 and "
    "receive from rank - 1",
    "send": "post the receive on the rank that is named, or leave the send out; do both sides make "
    "as many passes?",
    "receive": "post the send on the rank that is named, or leave the receive out; do both sides "
    "make as many passes?",
}

ADVICE = {
    "missing_participant": "make this call on every rank of the group: a rank that has nothing to "
    "add takes part with zeros or an empty tensor",
    "call_mismatch": "let every rank of the group make the same calls in the same order",
    "misaligned_calls": "let every rank of the group make the same calls in the same order; "
    "harness.label() names calls that share a line",
    "rank_died": "look at what the rank printed before its process ended; the others only waited "
    "for it",
    "straggler": "see what that rank was doing in its stack; if it is only slow, raise the timeout "
    "of the world",
    "value_mismatch": "look at the collectives that this value comes out of: a reduction that is "
    "missing or made twice, a group that is not the one meant",
    "mutated_value": "keep a clone() of what must not change, or write to another tensor",
    "deadlock": "let all ranks make these calls in one order",
}


def advice(finding: Finding, place: Divergence | None) -> tuple[str, ...]:
    """One sentence, from where the ranks parted if that is known, else from the kind."""
    if place is not None and finding.kind == "missing_participant":
        where = f"{os.path.basename(place.file)}:{place.line}"
        return (
            f"make the call on every rank, whatever decides at {where}: a rank that has nothing to "
            "add takes part with zeros or an empty tensor",
        )
    if finding.hints:
        return ()
    if finding.kind == "argument_mismatch":
        said = ARGUMENTS.get(finding.detail)
    elif finding.kind == "unmatched_p2p":
        said = MESSAGES.get(finding.detail)
    else:
        said = ADVICE.get(finding.kind)
    return (said,) if said else ()
