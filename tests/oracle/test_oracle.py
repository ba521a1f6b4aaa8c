"""The stub of megatron.core.mpu against the real megatron.core.parallel_state, function by function.

torch's "fake" process group backend lets one process be any rank of any world, so no process is
started: for each rank of each world the real state is initialised, and every function is asked.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import inspect
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.layout import Layout, factorizations
from harness.mpu import _parallel_state as stub
from harness.mpu import activate, deactivate
from harness.mpu._unmodelled import UNMODELLED

try:
    MEGATRON = importlib.metadata.version("megatron-core")
except importlib.metadata.PackageNotFoundError:
    MEGATRON = ""

pytestmark = [
    pytest.mark.skipif(
        not MEGATRON, reason="megatron-core is not installed; run tox -e oracle to compare with it"
    ),
    # What Megatron and torch warn about is not what is under test.
    pytest.mark.filterwarnings("ignore"),
]

PP_LAST, DP_LAST = "tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"
LARGEST_WORLD = 16

Keywords = list[dict[str, Any]]

CHECKED: Keywords = [{}, {"check_initialized": False}]
WITH_CP: Keywords = [{}, {"with_context_parallel": True}, {"with_context_parallel": False}]
PARTIAL: Keywords = [
    *WITH_CP,
    {"with_context_parallel": True, "partial_data_parallel": True},
    {"partial_data_parallel": True},
]
EXPERT_PARTIAL: Keywords = [{}, {"partial_expert_data_parallel": True}]
STAGE: Keywords = [
    {},
    {"ignore_virtual": False},
    {"ignore_virtual": False, "vp_stage": 0},
    {"ignore_virtual": False, "vp_stage": 1},
]

# Every function that answers a question, with the keywords to ask it with.
QUESTIONS: dict[str, Keywords] = {
    "get_all_ranks": [{}],
    "get_amax_reduction_group": [
        {},
        {"with_context_parallel": True},
        {"tp_only_amax_red": True},
        {"with_context_parallel": True, "tp_only_amax_red": True},
    ],
    "get_context_parallel_global_ranks": CHECKED,
    "get_context_parallel_group": CHECKED,
    "get_context_parallel_rank": [{}],
    "get_context_parallel_world_size": [{}],
    "get_data_modulo_expert_parallel_group": EXPERT_PARTIAL,
    "get_data_parallel_group": [
        *PARTIAL,
        {"independent_all_gather": True},
        {"with_context_parallel": True, "independent_all_gather": True},
    ],
    "get_data_parallel_group_gloo": PARTIAL,
    "get_data_parallel_rank": PARTIAL,
    "get_data_parallel_src_rank": WITH_CP,
    "get_data_parallel_world_size": PARTIAL,
    "get_embedding_group": CHECKED,
    "get_expert_data_parallel_group": [*CHECKED, *EXPERT_PARTIAL],
    "get_expert_data_parallel_group_gloo": EXPERT_PARTIAL,
    "get_expert_data_parallel_rank": EXPERT_PARTIAL,
    "get_expert_data_parallel_world_size": EXPERT_PARTIAL,
    "get_expert_model_parallel_group": CHECKED,
    "get_expert_model_parallel_rank": [{}],
    "get_expert_model_parallel_src_rank": [{}],
    "get_expert_model_parallel_world_size": [{}],
    "get_expert_tensor_and_model_parallel_group": CHECKED,
    "get_expert_tensor_and_model_parallel_rank": [{}],
    "get_expert_tensor_and_model_parallel_world_size": [{}],
    "get_expert_tensor_model_pipeline_parallel_group": CHECKED,
    "get_expert_tensor_parallel_group": CHECKED,
    "get_expert_tensor_parallel_rank": [{}],
    "get_expert_tensor_parallel_world_size": [{}],
    "get_inter_distributed_optimizer_instance_group": CHECKED,
    "get_intra_distributed_optimizer_instance_group": CHECKED,
    "get_model_parallel_group": CHECKED,
    "get_model_parallel_src_rank": [{}],
    "get_pipeline_model_parallel_first_rank": [{}],
    "get_pipeline_model_parallel_group": CHECKED,
    "get_pipeline_model_parallel_last_rank": [{}],
    "get_pipeline_model_parallel_next_rank": [{}],
    "get_pipeline_model_parallel_prev_rank": [{}],
    "get_pipeline_model_parallel_rank": [{}],
    "get_pipeline_model_parallel_world_size": [{}],
    "get_position_embedding_group": CHECKED,
    "get_tensor_and_context_parallel_group": CHECKED,
    "get_tensor_and_context_parallel_rank": [{}],
    "get_tensor_and_context_parallel_world_size": [{}],
    "get_tensor_and_data_parallel_group": [*CHECKED, *WITH_CP],
    "get_tensor_model_parallel_group": CHECKED,
    "get_tensor_model_parallel_rank": [{}],
    "get_tensor_model_parallel_src_rank": [{}],
    "get_tensor_model_parallel_world_size": [{}],
    "get_virtual_pipeline_model_parallel_rank": [{}],
    "get_virtual_pipeline_model_parallel_world_size": [{}],
    "has_separate_all_gather_group": [{}],
    "is_initialized": [{}],
    "is_pipeline_first_stage": STAGE,
    "is_pipeline_last_stage": STAGE,
    "is_rank_in_embedding_group": STAGE,
    "is_rank_in_position_embedding_group": [{}],
    "is_unitialized": [{}],
    "model_parallel_is_initialized": [{}],
}

SETTERS = (
    "set_data_parallel_rank",
    "set_expert_model_parallel_rank",
    "set_expert_model_parallel_world_size",
    "set_expert_tensor_parallel_rank",
    "set_expert_tensor_parallel_world_size",
    "set_pipeline_model_parallel_rank",
    "set_pipeline_model_parallel_world_size",
    "set_tensor_model_parallel_rank",
    "set_tensor_model_parallel_world_size",
    "set_virtual_pipeline_model_parallel_rank",
    "set_virtual_pipeline_model_parallel_world_size",
)

# Modelled, but with nothing to ask in one process; tests/unit/test_mpu.py has them.
ELSEWHERE = (
    "create_group",
    "default_embedding_ranks",
    "default_position_embedding_ranks",
    "destroy_global_memory_buffer",
    "destroy_global_symmetric_memory_buffer",
    "destroy_model_parallel",
    "get_hybrid_data_context_parallel_groups",
    "initialize_model_parallel",
)


@dataclass(frozen=True)
class FakeGroup:
    """What the stub gets for a group: the ranks are all there is to compare."""

    ranks: tuple[int, ...]


class Real:
    """The real parallel_state, as one rank after another."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.module = importlib.import_module("megatron.core.parallel_state")
            import torch.distributed as dist
            from torch.testing._internal.distributed.fake_pg import FakeStore
        self.dist = dist
        self._store = FakeStore
        self._rank = 0
        self._groups: dict[tuple[int, ...], Any] = {}

    def become(self, rank: int, world_size: int) -> None:
        """Be that rank of a world of that size, not initialised yet."""
        self.end()
        self._rank = rank
        self.dist.init_process_group("fake", rank=rank, world_size=world_size, store=self._store())

    def end(self) -> None:
        """Destroy the groups."""
        self._groups.clear()
        if self.dist.is_initialized():
            self.dist.destroy_process_group()

    def create_group(self, ranks: list[int], **_: object) -> Any:
        """A group on the fake backend; one object for equal ranks, to save time."""
        key = tuple(ranks)
        if self._rank not in key:
            return self.dist.GroupMember.NON_GROUP_MEMBER
        if key not in self._groups:
            self._groups[key] = self.dist.new_group(ranks)
        return self._groups[key]

    def initialize(self, layout: Layout, **more: Any) -> None:
        """Initialise with that layout; Megatron works dp out from the world's size."""
        self.module.initialize_model_parallel(**_arguments(layout), **more)

    def destroy(self) -> None:
        """Destroy the parallel state, and before that what the real function forgets.

        The gloo groups as well, which it would destroy in torch, where `create_group` reuses them.
        """
        for name in vars(self.module):
            if name.isupper() and name.endswith(("_RANK", "_RANKS", "_WITH_CP", "_GLOO")):
                setattr(self.module, name, None)
        self.module.destroy_model_parallel()


def _arguments(layout: Layout) -> dict[str, Any]:
    return {
        "tensor_model_parallel_size": layout.tp,
        "pipeline_model_parallel_size": layout.pp,
        "context_parallel_size": layout.cp,
        "expert_model_parallel_size": layout.ep,
        "expert_tensor_parallel_size": layout.etp,
        "order": layout.order,
    }


@pytest.fixture(scope="module")
def real() -> Iterator[Real]:
    """The real parallel_state, with what only costs time made cheap."""
    oracle = Real()
    module = oracle.module
    compute = functools.lru_cache(maxsize=None)(
        lambda size, sizes, mask: module_compute(size, list(sizes), list(mask))
    )
    module_compute = module.generate_masked_orthogonal_rank_groups
    with pytest.MonkeyPatch.context() as patch:
        # Megatron asks for gloo for some groups, which would need a network.
        patch.setattr(module, "create_group", oracle.create_group)
        patch.setattr(
            module,
            "generate_masked_orthogonal_rank_groups",
            # Copied: Megatron may write to the lists.
            lambda size, sizes, mask: [list(g) for g in compute(size, tuple(sizes), tuple(mask))],
        )
        yield oracle
        oracle.destroy()
        oracle.end()


@pytest.fixture(autouse=True)
def _no_world_is_left() -> Iterator[None]:
    yield
    deactivate()


@dataclass
class Comparison:
    """Counts what was compared, and keeps the first differences."""

    real: Real
    cases: int = 0
    answers: int = 0
    differences: list[str] = field(default_factory=list)
    _plan: list[tuple[str, dict[str, Any], Callable[..., Any], Callable[..., Any]]] = field(
        default_factory=list
    )

    def __post_init__(self) -> None:
        self._plan = [
            (name, kwargs, getattr(self.real.module, name), getattr(stub, name))
            for name, choices in QUESTIONS.items()
            for kwargs in choices
        ]

    def ask_all(self, case: str) -> None:
        """Ask both every question and compare the answers, the errors by type."""
        self.cases += 1
        for name, kwargs, ask_real, ask_stub in self._plan:
            self.compare(f"{case}: {name}({kwargs})", ask_real, ask_stub, kwargs)

    def compare(
        self,
        question: str,
        ask_real: Callable[..., Any],
        ask_stub: Callable[..., Any],
        kwargs: dict[str, Any],
    ) -> None:
        """Compare one answer."""
        self.answers += 1
        expected, actual = self._answer(ask_real, kwargs), self._answer(ask_stub, kwargs)
        if expected != actual:
            self.differences.append(
                f"{question} is {expected!r} in Megatron, {actual!r} in the stub"
            )

    def _answer(self, ask: Callable[..., Any], kwargs: dict[str, Any]) -> Any:
        try:
            value = ask(**kwargs)
        except (AssertionError, ValueError, RuntimeError, ArithmeticError, IndexError) as error:
            return type(error)
        if isinstance(value, FakeGroup):
            return value.ranks
        if isinstance(value, self.real.dist.ProcessGroup):
            return tuple(self.real.dist.get_process_group_ranks(value))
        return value


def _start(layout: Layout, rank: int) -> None:
    deactivate()
    activate(layout, rank, lambda name, ranks: FakeGroup(ranks))  # type: ignore[arg-type, return-value] # a stand-in


@functools.cache
def _shapes(world_size: int, order: str, *, other_etp: bool) -> tuple[Layout, ...]:
    shapes = []
    for dp, cp, tp, pp in factorizations(world_size, ("dp", "cp", "tp", "pp")):
        for ep in range(1, world_size + 1):
            for etp in range(1, world_size + 1) if other_etp else (tp,):
                # test_the_same_shapes_are_refused holds that Megatron refuses the others too.
                with contextlib.suppress(ValueError):
                    shapes.append(Layout(dp, cp, tp=tp, pp=pp, ep=ep, etp=etp, order=order))
    return tuple(shape for shape in shapes if not (other_etp and shape.etp == shape.tp))


def _cases(world_size: int, rank: int) -> Iterator[Layout]:
    for order in (PP_LAST, DP_LAST):
        yield from _shapes(world_size, order, other_etp=False)
        # With every etp as well there would be 20,000 cases more; in larger worlds the ranks take
        # turns, one rank a shape.
        for index, layout in enumerate(_shapes(world_size, order, other_etp=True)):
            if world_size <= 4 or index % world_size == rank:
                yield layout


def test_every_function_answers_like_megatron(real: Real) -> None:
    """Every rank of every world up to 16 gets Megatron's groups, ranks, sizes and stages."""
    began = time.monotonic()
    comparison = Comparison(real)
    for world_size in range(1, LARGEST_WORLD + 1):
        for rank in range(world_size):
            real.become(rank, world_size)
            for layout in _cases(world_size, rank):
                real.initialize(layout)
                _start(layout, rank)
                comparison.ask_all(f"rank {rank} of {layout}")
                real.destroy()
    seconds = time.monotonic() - began
    print(
        f"oracle: megatron-core {MEGATRON}, {comparison.cases} cases, {comparison.answers} answers, "
        f"{len(comparison.differences)} differences, {seconds:.1f} s"
    )
    assert comparison.cases >= 12_000
    assert comparison.answers >= 1_000_000
    assert [] == comparison.differences[:5]


@pytest.mark.parametrize("order", [PP_LAST, DP_LAST, "tp-pp-cp-ep-dp", "pp-dp-ep-cp-tp"])
def test_the_same_shapes_are_refused(real: Real, order: str) -> None:
    """A shape is refused by Layout exactly if Megatron's initialize_model_parallel refuses it."""
    compared = 0
    for world_size in (1, 2, 6, 8):
        real.become(0, world_size)
        sizes = [s for s in range(1, world_size + 1) if world_size % s == 0]
        sizes.append(world_size + 1)
        for dp, cp, tp, pp in factorizations(world_size, ("dp", "cp", "tp", "pp")):
            for ep in sizes:
                for etp in sizes:
                    shape = f"dp={dp} cp={cp} tp={tp} pp={pp} ep={ep} etp={etp} {order}"
                    try:
                        layout = Layout(dp, cp, tp=tp, pp=pp, ep=ep, etp=etp, order=order)
                    except ValueError as error:
                        expected = str(error)
                    else:
                        expected = ""
                    try:
                        real.module.initialize_model_parallel(
                            tensor_model_parallel_size=tp,
                            pipeline_model_parallel_size=pp,
                            context_parallel_size=cp,
                            expert_model_parallel_size=ep,
                            expert_tensor_parallel_size=etp,
                            order=order,
                        )
                        refused = ""
                    except (RuntimeError, AssertionError) as error:
                        refused = str(error)
                    finally:
                        real.destroy()
                    assert (shape, bool(expected)) == (shape, bool(refused)), (expected, refused)
                    if not refused:
                        assert layout.world_size == world_size
                    compared += 1
    print(f"oracle: {compared} shapes accepted or refused alike, order {order}")
    assert compared >= 500


def test_set_functions_override_like_megatrons(real: Real) -> None:
    """After any set_* function, every function answers as Megatron's does after the same."""
    comparison = Comparison(real)
    layout = Layout(dp=2, tp=2, pp=2)
    for rank in (0, 3, 7):
        real.become(rank, layout.world_size)
        for setter in SETTERS:
            for value in (0, 1, 2, None):
                real.initialize(layout)
                _start(layout, rank)
                for module in (real.module, stub):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        getattr(module, setter)(value)
                comparison.ask_all(f"rank {rank} after {setter}({value})")
                real.destroy()
    assert comparison.cases == 3 * 4 * len(SETTERS)
    assert [] == comparison.differences[:5]


def test_virtual_stages_and_options_are_like_megatrons(real: Real) -> None:
    """The options of initialize_model_parallel that mean something on gloo do what Megatron's do."""
    comparison = Comparison(real)
    layout = Layout(dp=2, pp=4)
    options: list[dict[str, Any]] = [
        {"virtual_pipeline_model_parallel_size": 2},
        {"create_gloo_process_groups": False},
        {"create_all_gather_group": True},
        {"get_embedding_ranks": lambda ranks: [ranks[0], ranks[1], ranks[-1]]},
        {"get_position_embedding_ranks": lambda ranks: [ranks[-1]]},
    ]
    for rank in range(layout.world_size):
        real.become(rank, layout.world_size)
        for option in options:
            real.initialize(layout, **option)
            _start(layout, rank)
            stub.initialize_model_parallel(**_arguments(layout), **option)
            comparison.ask_all(f"rank {rank} with {option}")
            real.destroy()
    assert comparison.cases == layout.world_size * len(options)
    assert [] == comparison.differences[:5]


def test_an_order_may_leave_out_unused_axes_like_megatrons(real: Real) -> None:
    """initialize_model_parallel takes Megatron's short orders, such as "tp-dp-pp"."""
    comparison = Comparison(real)
    for order in ("tp-dp-pp", "tp-pp-dp", "TP-DP-PP"):
        for rank in range(8):
            real.become(rank, 8)
            arguments: dict[str, Any] = {
                "tensor_model_parallel_size": 2,
                "pipeline_model_parallel_size": 2,
                "order": order,
            }
            if order.isupper():
                # Megatron compares the end of the order as it is spelled.
                arguments["pipeline_model_parallel_size"] = 1
            real.module.initialize_model_parallel(**arguments)
            _start(Layout(dp=8), rank)
            stub.destroy_model_parallel()
            stub.initialize_model_parallel(**arguments)
            comparison.ask_all(f"rank {rank} with order {order}")
            real.destroy()
    assert 24 == comparison.cases
    assert [] == comparison.differences[:5]


def test_not_initialised_answers_like_megatron(real: Real) -> None:
    """Before torch.distributed, and before the parallel state, is initialised, both say the same."""
    comparison = Comparison(real)
    real.destroy()
    real.end()
    deactivate()
    comparison.ask_all("no torch.distributed")
    real.become(0, 2)
    comparison.ask_all("no parallel state")
    real.initialize(Layout(dp=2))
    real.destroy()
    _start(Layout(dp=2), 0)
    stub.destroy_model_parallel()
    comparison.ask_all("destroyed")
    assert [] == comparison.differences


def test_the_whole_public_face_is_there(real: Real) -> None:
    """Every public function of Megatron's is modelled or refuses by name, none is forgotten."""
    functions = {
        name
        for name, value in vars(real.module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == real.module.__name__
    }
    # Patched by the fixture, so no functions of the module's.
    functions |= {"create_group", "generate_masked_orthogonal_rank_groups"}
    answered = set(QUESTIONS) | set(SETTERS) | set(ELSEWHERE)
    assert len(functions) >= 75
    assert functions - answered - UNMODELLED == set()
    assert answered - functions == set()
    assert answered & UNMODELLED == set()


def test_parameters_have_megatrons_names_and_defaults(real: Real) -> None:
    """Each parameter of Megatron's functions is there, with its default, keyword-only after one."""
    for name in {*QUESTIONS, *SETTERS, *ELSEWHERE} - {"create_group"}:
        expected = inspect.signature(getattr(real.module, name)).parameters
        actual = inspect.signature(getattr(stub, name)).parameters
        assert {(name, p.name, p.default) for p in expected.values()} <= {
            (name, p.name, p.default) for p in actual.values()
        }
        kinds = [p.kind for p in actual.values()]
        assert set(kinds[1:]) <= {inspect.Parameter.KEYWORD_ONLY}
