# ruff: noqa: C417, E701, E702, RUF005, SIM102
"""Programs of two ranks: rank 0 comes to ``call("it")``, rank 1 does not, for what stands at HERE."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from tests.unit.explain.following import call


def if_statement(rank: int) -> None:
    size = 3 if rank == 0 else 0
    if size > 0:  # HERE
        call()


def elif_statement(rank: int) -> None:
    if rank > 5:
        call("other")
    elif rank == 0:  # HERE
        call()


def else_branch(rank: int) -> None:
    if rank == 1:  # HERE
        pass
    else:
        call()


def nested(rank: int) -> None:
    if rank < 2:
        if rank < 1:  # HERE
            call()


def early_return(rank: int) -> None:
    if rank == 1:  # HERE
        return
    for _ in range(2):
        pass
    call()


def early_return_of_callee(rank: int) -> None:
    def mean(values: list[int]) -> float:
        if not values:  # HERE
            return 0.0
        call()
        return 1.0

    mean([1] if rank == 0 else [])


def decision_in_caller(rank: int) -> None:
    def reduce() -> None:
        call()

    def step() -> None:
        if rank == 0:  # HERE
            reduce()

    step()


def continue_in_loop(rank: int) -> None:
    for step in range(4):
        if rank == 1 and step == 2:  # HERE
            continue
        call("it" if step == 2 else "other")


def break_in_loop(rank: int) -> None:
    for step in range(4):
        if rank == 1 and step == 2:  # HERE
            break
        call("it" if step == 2 else "other")


def shorter_loop(rank: int) -> None:
    for step in range(3 if rank == 0 else 2):  # HERE
        call("it" if step == 2 else "other")


def empty_loop(rank: int) -> None:
    for _ in [1] if rank == 0 else []:  # HERE
        call()


def while_loop(rank: int) -> None:
    left = 3 - rank
    while left:  # HERE
        left -= 1
        call("it" if rank == 0 and not left else "other")


def one_line_loop(rank: int) -> None:
    names = ["a", "b", "it"][: 3 - rank]
    for name in names: call(name)  # fmt: skip # HERE


def one_line_if(rank: int) -> None:
    if rank == 0: call()  # fmt: skip # HERE


def swallowed(rank: int) -> None:
    def load() -> None:
        if rank == 1:  # HERE
            raise ValueError("bad")

    with contextlib.suppress(ValueError):
        load()
        call()


def caught(rank: int) -> None:
    try:
        1 / (1 - rank)  # HERE
        call()
    except ZeroDivisionError:
        pass


def raised_away(rank: int) -> None:
    def deep() -> None:
        [1, 2][rank + 1]  # HERE

    deep()
    call()


def short_circuit_and(rank: int) -> None:
    rank == 0 and call()  # HERE


def short_circuit_or(rank: int) -> bool:
    return rank == 1 or call()  # HERE


def conditional_expression(rank: int) -> None:
    _ = call() if rank == 0 else None  # HERE


def comprehension_filter(rank: int) -> None:
    _ = [call() for size in (3, 2) if size > 4 * rank and size > 2]  # HERE


def comprehension_length(rank: int) -> None:
    names = ["a", "b", "it"][: 3 - rank]
    _ = {name: call(name) for name in names}  # HERE


def match_statement(rank: int) -> None:
    kind = "all" if rank == 0 else "none"
    match kind:  # HERE
        case "none":
            pass
        case _:
            call()


def asserted(rank: int) -> None:
    try:
        assert rank == 0, "only the first"  # HERE
        call()
    except AssertionError:
        pass


def legal_branch_before(rank: int) -> None:
    if rank == 0:
        print(end="")
    else:
        _ = 2
    if rank == 0:  # HERE
        call()


def legal_loop_before(rank: int) -> None:
    for _ in range(rank + 1):
        pass
    total = 0
    while total < 3 * rank:
        total += 1
    if not total:  # HERE
        call()


def legal_branches_in_loop(rank: int) -> None:
    for step in range(3):
        if step == rank:
            print(end="")
        if rank == 0 or step < 2:  # HERE
            call("it" if step == 2 else "other")


def legal_call_of_other_branch(rank: int) -> None:
    if rank == 0:
        call("other")
    else:
        call("other")
    if rank == 0:  # HERE
        call()


def generator(rank: int) -> None:
    def batches() -> Iterator[int]:
        yield 1
        if rank == 0:
            yield 2

    for batch in batches():  # HERE
        call("it" if batch == 2 else "other")


def several_lines(rank: int) -> None:
    sizes = [1] if rank == 0 else []
    if (  # HERE
        len(sizes) > 0 and sizes[0] == 1
    ):
        call()


def decorated(rank: int) -> None:
    def only_if(test: bool) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
        def decorate(function: Callable[[], Any]) -> Callable[[], Any]:
            @functools.wraps(function)
            def wrapped() -> Any:
                if test:  # HERE
                    return function()
                return None

            return wrapped

        return decorate

    @only_if(rank == 0)
    def reduce() -> None:
        call()

    reduce()


def recursive(rank: int) -> None:
    def walk(depth: int) -> None:
        if depth == 2 - rank:  # HERE
            return
        call("it" if depth == 1 else "other")
        walk(depth + 1)

    walk(0)


def method_of_a_class(rank: int) -> None:
    class Base:
        def reduce(self) -> None:
            call()

    class Quiet(Base):
        def reduce(self) -> None:
            pass

    model = Base() if rank == 0 else Quiet()
    model.reduce()  # HERE


def registered(rank: int) -> None:
    hooks: list[Callable[[], Any]] = []

    def average() -> None:
        call()

    if rank == 0:  # HERE
        hooks.append(average)
    list(map(lambda hook: hook(), hooks + [int]))


def after_a_loop_with_else(rank: int) -> None:
    for step in range(3):
        if step == 1 + rank:  # HERE
            break
        if step == 1:
            return
    call()


def finally_block(rank: int) -> None:
    try:
        if rank == 1:  # HERE
            return
        call()
    finally:
        print(end="")


def in_with_block(rank: int) -> None:
    with contextlib.nullcontext():
        if rank == 0:  # HERE
            call()


def in_lambda(rank: int) -> None:
    reduce: Callable[[int], object] = lambda size: size and call()  # noqa: E731 # HERE
    reduce(1 - rank)


def second_on_one_line(rank: int) -> None:
    call("other"), rank == 0 and call()  # HERE


def one_line_return(rank: int) -> None:
    def reduce(wanted: bool) -> None:
        if not wanted: return  # fmt: skip # HERE
        call()

    reduce(rank == 0)


def one_line_break(rank: int) -> None:
    for step in range(4):
        if step >= 3 - rank: break  # fmt: skip # HERE
        call("it" if step == 2 else "other")


def one_line_continue_of_unknown_truth(rank: int) -> None:
    skipped = iter([False, False, rank == 1, False])
    for step in range(4):
        if next(skipped): continue  # fmt: skip # HERE
        _ = step
        call("it" if step == 2 else "other")


def one_line_else(rank: int) -> None:
    if rank == 0: size = 1  # fmt: skip # HERE
    else: return  # fmt: skip
    call("it" if size else "other")


def while_true(rank: int) -> None:
    step = 0
    while True:
        if step == rank:
            print(end="")
        if step > 2 - rank:  # HERE
            break
        step += 1
        call("it" if step == 3 else "other")


def statements_on_one_line(rank: int) -> None:
    size = 1 - rank; _ = size and call(); del size  # fmt: skip # HERE


def exception_group(rank: int) -> None:
    try:
        if rank == 1:  # HERE
            raise ExceptionGroup("two", [ValueError("bad")])
        call()
    except* ValueError:
        pass


def iterator_at_its_end(rank: int) -> None:
    batches = iter([1, 2, 3][: 3 - rank])
    while True:
        try:
            batch = next(batches)  # HERE
        except StopIteration:
            break
        call("it" if batch == 3 else "other")


def iterator_begun_again(rank: int) -> None:
    batches = iter([1, 2][: 2 - rank])
    for _ in range(2):
        try:
            batch = next(batches)
        except StopIteration:
            batch = 0
        if batch == 2:  # HERE
            call()


def other_exception(rank: int) -> None:
    try:
        int({"a": "x"}["a" if rank == 0 else "b"])  # HERE
    except ValueError:
        call()
    except KeyError:
        pass


def other_exception_of_callee(rank: int) -> None:
    def load() -> None:
        if rank == 0:  # HERE
            raise ValueError("bad")
        raise KeyError("missing")

    try:
        load()
    except ValueError:
        call()
    except KeyError:
        pass


def no_more_wanted(rank: int) -> None:
    def reduce(step: int) -> bool:
        call("it" if step == 2 else "other")
        return step < 2 - rank

    all(reduce(step) for step in range(3))  # HERE


def definition_with_decisions(rank: int) -> None:
    if rank == 0:  # HERE
        call()

    def never() -> int:
        return 1 if rank == 0 else 2

    _ = never


PROGRAMS = [
    value
    for value in list(globals().values())
    if callable(value) and getattr(value, "__module__", "") == __name__
]
