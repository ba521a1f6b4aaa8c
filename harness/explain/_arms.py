"""Which way a rank took at a compound statement, told from what it came to next."""

from __future__ import annotations

import ast

from harness.explain._paths import Point, Visit
from harness.explain._source import Step

_JUMPS = (ast.Return, ast.Raise, ast.Break, ast.Continue)


def arm(visit: Visit, point: Point) -> str:
    """Which way a rank took at the head of a compound statement; empty if it cannot be told.

    ``"body"``, ``"else"`` (the other way, be there an ``else`` or not), ``"raised"``.
    """
    if point in visit.raised:
        return "raised"
    step = visit.steps[point]
    if step.one_line and step.test:
        return _on_one_line(visit, point, step)
    following = visit.after(point)
    if following is not None:
        line = visit.steps[following].line
        return "body" if step.body[0] <= line <= step.body[1] else "else"
    if visit.left == "returned":
        return "else"
    # It comes again to where it was before: the head of the loop around it.
    return "else" if visit.at != point and not visit.left else ""


def _on_one_line(visit: Visit, point: Point, step: Step) -> str:
    """The same where the body is on the line of the head, and no event tells that it was entered."""
    node = step.node
    assert isinstance(node, ast.If | ast.While)
    told = visit.values.get(point, {}).get(step.test)
    if told in ("True", "False"):
        return "body" if told == "True" else "else"
    if visit.at == point and not visit.left:
        return ""
    following = visit.after(point)
    after = None if following is None else visit.steps[following]
    if node.orelse:
        return "else" if after and step.orelse[0] <= after.line <= step.orelse[1] else "body"
    if isinstance(node, ast.If) and isinstance(node.body[-1], _JUMPS):
        # Who jumps does not come to what is below, in the same pass.
        around = len(step.loops)
        below = (
            following is not None
            and after is not None
            and after.line > step.last
            and after.loops[:around] == step.loops
            and following[2 : 2 + around] == point[2 : 2 + around]
        )
        return "else" if below else "body"
    return ""
