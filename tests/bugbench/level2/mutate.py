"""Mutants of a step, made from its syntax tree: one small edit each, as a person might slip.

A mutant is made for all ranks (``everywhere``) or for some of them (``on one rank``); the rank or
data a guard depends on is the step's own. Line numbers stay those of the step.
"""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.bugbench.level2 import steps

Edit = Callable[[ast.Call], None]


@dataclass(frozen=True)
class Subject:
    """A step and what its mutants are made with."""

    step: str
    reference: str
    world: dict[str, int]
    some: str
    """True on some ranks only, in every group that the step uses."""
    data: str
    """Depends on a rank's own data, and is False on some ranks; of names that the step has."""
    groups: tuple[str, ...]
    """The group variables; one stands in for another."""
    roots: tuple[str, ...]
    """Ranks that stand in for a source or destination."""

    @property
    def path(self) -> str:
        """The file of the step."""
        return steps.__file__

    def tree(self) -> ast.Module:
        """The whole module, to be compiled on a rank."""
        return ast.parse(inspect.getsource(steps))


SUBJECTS = (
    Subject(
        "dp_cp_step",
        "dp_cp_reference",
        steps.DP_CP_WORLD,
        some="rank.dp == rank.cp",
        data="bool(mask.any())",
        groups=("dp_cp_group", "cp_group", "mpu.get_data_parallel_group()", "None"),
        roots=("first", "last"),
    ),
    Subject(
        "pp_tp_step",
        "pp_tp_reference",
        steps.PP_TP_WORLD,
        some="rank.tp == rank.pp",
        data="bool(owned.any())",
        groups=("tp_group", "pp_group", "model_group", "embedding_group"),
        roots=("first", "last"),
    ),
)

# Mutants that are as right as the step itself, each with the reason. A mutant's name is its step,
# its operator, the call and the change.
_SAME_MEMBERS = "the group has the same members, and all of them change to it"
EQUIVALENT = {
    **{
        f"dp_cp_step: group: {call}: None everywhere": _SAME_MEMBERS
        for call in (
            "all_reduce(sums)",
            "all_reduce(grad)",
            "all_reduce(peak)",
            "all_reduce(loss)",
            "all_gather(mask.sum().view(1))",
        )
    },
    "dp_cp_step: guard by data: isend(edge): if bool(mask.any())": (
        "always true in this batch: both ranks that send own response tokens"
    ),
    "pp_tp_step: group: all_reduce(grads): pp_group everywhere": _SAME_MEMBERS,
    "pp_tp_step: group: broadcast(loss): embedding_group everywhere": _SAME_MEMBERS,
    "pp_tp_step: reduce op: all_reduce(peak): dist.ReduceOp.SUM everywhere": (
        "a softmax is the same whatever is taken off all of its logits"
    ),
}


@dataclass(frozen=True)
class Mutant:
    """One edited step: its syntax tree, ready to compile."""

    subject: Subject
    operator: str
    line: int
    call: str
    change: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """Step, operator, call and change."""
        return f"{self.subject.step}: {self.operator}: {self.call}: {self.change}"


def mutants(subject: Subject) -> Iterator[Mutant]:
    """Every mutant of a step, in the order of its calls."""
    yield from _Maker(subject).all()


def some_of(subject: Subject, count: int) -> list[Mutant]:
    """About ``count`` mutants: of each operator in turn, spread over the calls of the step."""
    by_operator: dict[str, list[Mutant]] = {}
    for mutant in mutants(subject):
        by_operator.setdefault(mutant.operator, []).append(mutant)
    share = -(-count // len(by_operator))
    chosen = []
    for each in by_operator.values():
        step = max(1, len(each) // share)
        chosen += each[step // 2 :: step][:share]
    return sorted(chosen, key=lambda mutant: mutant.line)


@dataclass(frozen=True)
class _Site:
    """A statement that communicates or waits: where it stands in the tree."""

    path: tuple[tuple[str, int], ...]
    """Field and index, from the function down to the statement."""
    call: ast.Call
    name: str
    keeps: str
    """The variable that keeps its work, or an empty string."""


class _Maker:
    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.tree = subject.tree()
        self.function = _function(self.tree, subject.step)
        self.sites = list(_sites(self.function, ()))
        self.calls = [site for site in self.sites if site.name != "wait"]

    def all(self) -> Iterator[Mutant]:
        known = False
        for site in self.calls:
            yield from self.dropped(site)
            yield from self.guarded(site, known=known)
            yield from self.group_changed(site)
            yield from self.root_changed(site)
            yield from self.reduce_op_changed(site)
            yield from self.dtype_changed(site)
            yield from self.split_changed(site)
            known = True
        for one, two in zip(self.calls, self.calls[1:], strict=False):
            yield from self.swapped(one, two)
        for site in self.sites:
            if site.name == "wait":
                yield from self.wait_changed(site)

    # -- one method an operator ---------------------------------------------------------------

    def dropped(self, site: _Site) -> Iterator[Mutant]:
        """Leave the call out, on all ranks; with it the wait for its work."""
        function = self._copy()
        _replace(function, site.path, [])
        if site.keeps:
            for wait in _waits(function, site.keeps):
                _replace(function, wait.path, [])
            _forget_assertion(function, site.keeps)
        yield self._made("drop", site, "left out everywhere", function)

    def guarded(self, site: _Site, *, known: bool) -> Iterator[Mutant]:
        """Make the call only where a predicate of the rank, or of its data, is true."""
        guards = {"guard by rank": self.subject.some}
        if known or self.subject.step == "pp_tp_step":
            guards["guard by data"] = self.subject.data
        for operator, test in guards.items():
            function = self._copy()
            if site.keeps:
                _wait_if_made(function, site.keeps)
            _guard(function, site.path, test, otherwise=site.keeps)
            yield self._made(operator, site, f"if {test}", function)

    def group_changed(self, site: _Site) -> Iterator[Mutant]:
        """Another group, everywhere and on some ranks."""
        keyword = _keyword(site.call, "group")
        if keyword is None:
            return
        now = ast.unparse(keyword.value)
        for other in self.subject.groups:
            if other != now:
                yield from self._argument(site, "group", "group", now, other)

    def root_changed(self, site: _Site) -> Iterator[Mutant]:
        """Another source or destination."""
        for name in ("src", "dst"):
            keyword = _keyword(site.call, name)
            if keyword is None:
                continue
            now = ast.unparse(keyword.value)
            for other in self.subject.roots:
                if other != now:
                    yield from self._argument(site, name, name, now, other)

    def reduce_op_changed(self, site: _Site) -> Iterator[Mutant]:
        """MAX for SUM, SUM for MAX."""
        keyword = _keyword(site.call, "op")
        if keyword is None:
            return
        now = ast.unparse(keyword.value)
        other = "dist.ReduceOp.SUM" if now.endswith("MAX") else "dist.ReduceOp.MAX"
        yield from self._argument(site, "reduce op", "op", now, other)

    def dtype_changed(self, site: _Site) -> Iterator[Mutant]:
        """The tensor as float64, on some ranks."""
        tensor = site.call.args[-1 if site.name == "all_gather" else 0]
        if site.name == "all_to_all_single":
            tensor = site.call.args[1]
        now = ast.unparse(tensor)
        test = self.subject.some

        def edit(call: ast.Call) -> None:
            place = next(i for i, a in enumerate(call.args) if ast.unparse(a) == now)
            text = f"({now}).double() if {test} else {now}"
            call.args[place] = _expression(text)

        yield self._edited("dtype", site, f"float64 if {test}", edit)

    def split_changed(self, site: _Site) -> Iterator[Mutant]:
        """One element more to or from the first peer, one less for the other."""
        if site.name != "all_to_all_single":
            return
        for place, what in ((2, "output"), (3, "input")):
            now = ast.unparse(site.call.args[place])
            for test, where in ((self.subject.some, "some"), ("True", "all")):

                def edit(call: ast.Call, place: int = place, now: str = now, t: str = test) -> None:
                    text = f"[{now}[0] + 1, {now}[1] - 1] if {t} else {now}"
                    call.args[place] = _expression(text)

                yield self._edited("split", site, f"{what} split on {where} ranks", edit)

    def swapped(self, one: _Site, two: _Site) -> Iterator[Mutant]:
        """Two calls of one block in the other order, on some ranks: where nothing else moves.

        The calls are brought together first, at the place of the later one.
        """
        block, first = one.path[:-1], one.path[-1]
        second = two.path[-1]
        if two.path[:-1] != block or first[0] != second[0] or one.keeps or two.keeps:
            return
        function = self._copy()
        body = _block(function, one.path)
        earlier, later = body[first[1]], body[second[1]]
        between = body[first[1] + 1 : second[1]]
        uses = _names(earlier, ast.Load)
        if any(uses & _names(each, context) for each in between for context in _CONTEXTS):
            return
        test = self.subject.some
        flipped = ast.If(
            _expression(test),
            [later, earlier],
            [copy.deepcopy(earlier), copy.deepcopy(later)],
        )
        body[first[1] : second[1] + 1] = [*between, ast.copy_location(flipped, later)]
        change = f"after {_text(two.call)} if {test}"
        yield self._made("swap", one, change, function)

    def wait_changed(self, site: _Site) -> Iterator[Mutant]:
        """No wait at all, on no rank or on some; or one at the very end."""
        function = self._copy()
        _replace(function, site.path, [])
        yield self._made("drop wait", site, "left out everywhere", function)
        function = self._copy()
        _guard(function, site.path, self.subject.some)
        yield self._made("drop wait", site, f"only if {self.subject.some}", function)
        function = self._copy()
        body = _block(function, site.path)
        if body[-1] is _at(function, site.path):
            return
        statement = body.pop(site.path[-1][1])
        # To the end of its block; in the function's own, in front of the return.
        body.insert(len(body) - isinstance(body[-1], ast.Return), statement)
        yield self._made("move wait", site, "to the end of its block", function)

    # -- making one -----------------------------------------------------------------------------

    def _argument(
        self, site: _Site, operator: str, name: str, now: str, other: str
    ) -> Iterator[Mutant]:
        for test in ("", self.subject.some):
            text = f"{other} if {test} else {now}" if test else other

            def edit(call: ast.Call, text: str = text) -> None:
                keyword = _keyword(call, name)
                assert keyword is not None
                keyword.value = _expression(text)

            where = f"if {test}" if test else "everywhere"
            yield self._edited(operator, site, f"{other} {where}", edit)

    def _edited(self, operator: str, site: _Site, change: str, edit: Edit) -> Mutant:
        function = self._copy()
        edit(_call_of(_at(function, site.path)))
        return self._made(operator, site, change, function)

    def _copy(self) -> ast.FunctionDef:
        return copy.deepcopy(self.function)

    def _made(self, operator: str, site: _Site, change: str, function: ast.FunctionDef) -> Mutant:
        body = [
            function if isinstance(n, ast.FunctionDef) and n.name == function.name else n
            for n in self.tree.body
        ]
        tree = ast.fix_missing_locations(ast.Module(body, []))
        call = site.call
        return Mutant(self.subject, operator, call.lineno, _text(call), change, tree)


_CONTEXTS = (ast.Load, ast.Store)

# -- reading a tree -------------------------------------------------------------------------------


def _function(tree: ast.Module, name: str) -> ast.FunctionDef:
    return next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)


def _sites(node: ast.AST, path: tuple[tuple[str, int], ...]) -> Iterator[_Site]:
    for field in ("body", "orelse"):
        for index, statement in enumerate(getattr(node, field, ())):
            here = (*path, (field, index))
            if isinstance(statement, ast.If):
                yield from _sites(statement, here)
            elif (site := _site(statement, here)) is not None:
                yield site


def _site(statement: ast.stmt, path: tuple[tuple[str, int], ...]) -> _Site | None:
    keeps = ""
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        keeps = statement.targets[0].id
    elif not isinstance(statement, ast.Expr):
        return None
    call = statement.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    name, owner = call.func.attr, _owner(call)
    if owner != "dist" and name != "wait":
        return None
    return _Site(path, call, name, keeps)


def _owner(call: ast.Call) -> str:
    assert isinstance(call.func, ast.Attribute)
    return call.func.value.id if isinstance(call.func.value, ast.Name) else ""


def _call_of(statement: ast.stmt) -> ast.Call:
    assert isinstance(statement, (ast.Expr, ast.Assign))
    assert isinstance(statement.value, ast.Call)
    return statement.value


def _keyword(call: ast.Call, name: str) -> ast.keyword | None:
    return next((k for k in call.keywords if k.arg == name), None)


def _names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {
        n.id
        for n in ast.walk(node)
        if isinstance(n, ast.Name)
        and isinstance(n.ctx, context)
        and n.id not in ("dist", "torch", "rank", "mpu")
        and not n.id.endswith("_group")
    }


def _text(call: ast.Call) -> str:
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr == "wait":
        return f"{_owner(call)}.wait() on line {call.lineno}"
    first = call.args[-1 if call.func.attr == "all_gather" else 0]
    return f"{call.func.attr}({ast.unparse(first)})"


# -- changing one ---------------------------------------------------------------------------------


def _block(function: ast.FunctionDef, path: tuple[tuple[str, int], ...]) -> list[ast.stmt]:
    node: ast.AST = function
    for field, index in path[:-1]:
        node = getattr(node, field)[index]
    block: list[ast.stmt] = getattr(node, path[-1][0])
    return block


def _at(function: ast.FunctionDef, path: tuple[tuple[str, int], ...]) -> ast.stmt:
    return _block(function, path)[path[-1][1]]


def _replace(
    function: ast.FunctionDef, path: tuple[tuple[str, int], ...], by: list[ast.stmt]
) -> None:
    block, index = _block(function, path), path[-1][1]
    block[index : index + 1] = by or [ast.copy_location(ast.Pass(), block[index])]


def _waits(function: ast.FunctionDef, work: str) -> list[_Site]:
    return [s for s in _sites(function, ()) if s.name == "wait" and _owner(s.call) == work]


def _forget_assertion(function: ast.FunctionDef, work: str) -> None:
    """Take out ``assert work is not None``."""
    for node in ast.walk(function):
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                block[:] = [
                    ast.copy_location(ast.Pass(), each)
                    if isinstance(each, ast.Assert) and work in _names(each, ast.Load)
                    else each
                    for each in block
                ]


def _guard(
    function: ast.FunctionDef, path: tuple[tuple[str, int], ...], test: str, otherwise: str = ""
) -> None:
    """Make a statement only where ``test`` is true; the variable ``otherwise`` is None elsewhere."""
    statement = _at(function, path)
    without: list[ast.stmt] = []
    if otherwise:
        target = ast.Name(otherwise, ast.Store())
        without = [ast.Assign([target], ast.Constant(None))]
    guarded = ast.If(_expression(test), [statement], without)
    _replace(function, path, [ast.copy_location(guarded, statement)])


def _wait_if_made(function: ast.FunctionDef, work: str) -> None:
    for wait in _waits(function, work):
        _guard(function, wait.path, f"{work} is not None")
    _forget_assertion(function, work)


def _expression(text: str) -> ast.expr:
    """Parsed, without a place of its own: it stands where it is put."""
    expression = ast.parse(text, mode="eval").body
    for node in ast.walk(expression):
        for name in ("lineno", "end_lineno", "col_offset", "end_col_offset"):
            node.__dict__.pop(name, None)
    return expression
