"""A run in the Trace Event format, which chrome://tracing and Perfetto open.

A process is a rank, a thread one of its threads; calls in flight beside others get a row of their
own, since slices of one row must nest. Arrows join calls that met.
"""

from __future__ import annotations

from typing import Any

from harness.record import Call, Stack
from harness.report._blocks import Block, Blocks, blocks_of
from harness.report._columns import gaps_of
from harness.report._run import Run
from harness.verdict._text import ranks_text, site

ROWS = 100
"""Rows kept for each thread of a rank."""


def trace(run: Run) -> dict[str, Any]:
    """The run as an object with ``traceEvents``; times are microseconds from its beginning."""
    calls = blocks_of(run)
    finding = next(iter(run.findings), None)
    rows = _rows(run, calls)
    events = [
        *_names(run, calls, rows),
        *(_slice(run, calls, block, rows[block.record]) for block in calls.all),
        *_arrows(run, calls, rows),
        *_ends(run, calls),
    ]
    for gap in gaps_of(calls, finding):
        time = gap.made.begun.time
        events.append(_instant(run, gap.rank, time, f"missing: {gap.made.text}", "missing"))
    return {
        "otherData": {
            "generator": "pytest-collectives",
            "test": run.test,
            "function": run.function,
            "verdict": finding.summary if finding is not None else "",
        },
        "displayTimeUnit": "ms",
        "traceEvents": events,
    }


def _rows(run: Run, calls: Blocks) -> dict[int, int]:
    """The row of each block: its thread's first one that is free."""
    rows = {}
    for lane in calls.lanes.values():
        busy: dict[int, list[float]] = {}
        for block in lane:
            until = busy.setdefault(block.begun.thread, [])
            begin, end = block.begun.time, _end(run, block)
            row = next((n for n, free in enumerate(until) if free <= begin), len(until))
            row = min(row, ROWS - 1)
            if row == len(until):
                until.append(end)
            else:
                until[row] = max(until[row], end)
            rows[block.record] = block.begun.thread * ROWS + row
    return rows


def _end(run: Run, block: Block) -> float:
    return max(block.begun.time, run.ended if block.end is None else block.end)


def _us(run: Run, time: float) -> float:
    return round((time - run.began) * 1e6, 1)


def _names(run: Run, calls: Blocks, rows: dict[int, int]) -> list[dict[str, Any]]:
    guilty = set(run.findings[0].ranks) if run.findings else set()
    made = []
    for rank, lane in sorted(calls.lanes.items()):
        name = f"rank {rank}{' (at fault)' if rank in guilty else ''}"
        made.append(_about("process_name", rank, 0, {"name": name}))
        made.append(_about("process_sort_index", rank, 0, {"sort_index": rank}))
        for row in sorted({rows[block.record] for block in lane} | {0}):
            thread, beside = divmod(row, ROWS)
            text = "main thread" if thread == 0 else f"thread {thread}"
            text += f", in flight {beside}" if beside else ""
            made.append(_about("thread_name", rank, row, {"name": text}))
            made.append(_about("thread_sort_index", rank, row, {"sort_index": row}))
    return made


def _about(name: str, rank: int, row: int, values: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": rank, "tid": row, "args": values}


def _slice(run: Run, calls: Blocks, block: Block, row: int) -> dict[str, Any]:
    begun = block.begun
    arguments: dict[str, Any] = {"call": block.text}
    category = "group"
    if isinstance(begun, Call):
        made = calls.groups.get(begun.group)
        if made is not None:
            category = made.name or f"group {list(made.ranks)}"
            arguments |= {"group": made.name, "ranks": list(made.ranks)}
        arguments |= {"number in group": begun.index + 1, "async": bool(begun.async_op)}
    arguments |= {"at": site(begun.stack), "stack": _stack(begun.stack)}
    if block.state == "open":
        arguments["state"] = "the rank was in this call as the run ended"
        if waits := calls.waits_for(block):
            arguments["waits for"] = ranks_text(waits)
    elif block.state != "done":
        arguments["state"] = "never waited for" if block.state == "flying" else block.error
    return {
        "ph": "X",
        "name": block.text.partition("(")[0],
        "cat": category,
        "pid": begun.rank,
        "tid": row,
        "ts": _us(run, begun.time),
        "dur": max(0.1, round((_end(run, block) - begun.time) * 1e6, 1)),
        "args": arguments,
    }


def _stack(stack: Stack) -> str:
    return "\n".join(f"{f.file}:{f.line} in {f.function}  {f.source}".rstrip() for f in stack)


def _arrows(run: Run, calls: Blocks, rows: dict[int, int]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for number, met in enumerate(calls.met.values(), start=1):
        if len(met) < 2:
            continue
        ordered = sorted(met, key=lambda block: (block.begun.time, block.begun.rank))
        for other, block in enumerate(ordered[1:]):
            arrow = {"name": "met", "cat": "met", "id": f"{number}.{other}"}
            for phase, end in (("s", ordered[0]), ("f", block)):
                made.append(
                    {
                        "ph": phase,
                        **arrow,
                        "pid": end.begun.rank,
                        "tid": rows[end.record],
                        "ts": _us(run, end.begun.time),
                        **({"bp": "e"} if phase == "f" else {}),
                    }
                )
    return made


def _ends(run: Run, calls: Blocks) -> list[dict[str, Any]]:
    made = []
    for rank, ended in sorted(calls.ended.items()):
        text = ": ".join(filter(None, (ended.how, ended.error, ended.message)))
        made.append(_instant(run, rank, ended.time, text, "end"))
    return made


def _instant(run: Run, rank: int, time: float, name: str, category: str) -> dict[str, Any]:
    return {
        "ph": "i",
        "s": "p",
        "name": name,
        "cat": category,
        "pid": rank,
        "tid": 0,
        "ts": _us(run, time),
    }
