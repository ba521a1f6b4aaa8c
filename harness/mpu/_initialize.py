"""`initialize_model_parallel` and `destroy_model_parallel` as user code calls them in a rank.

A rank starts initialised with the layout its world was asked for, so a script that initialises
Megatron itself may do so as long as it describes that layout; for another one it has to destroy the
first, as it would have to with Megatron.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.layout import DEFAULT_ORDER, Layout, positive_int
from harness.mpu import _state

EmbeddingRanks = Callable[[list[int]], Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments of one `initialize_model_parallel` call that mean something on gloo."""

    tp: int
    pp: int
    cp: int
    ep: int
    etp: int | None
    virtual_pp: int | None
    order: str
    embedding_ranks: EmbeddingRanks | None
    position_embedding_ranks: EmbeddingRanks | None
    gloo_groups: bool
    all_gather_group: bool


def refuse_unmodelled(arguments: Mapping[str, tuple[object, object]]) -> None:
    """Raise NotImplementedError for the first argument whose value is not its default."""
    for name, (value, default) in arguments.items():
        if value != default:
            raise NotImplementedError(
                f"initialize_model_parallel({name}={value!r}) is not modelled by the "
                f"pytest-collectives stub of megatron.core.mpu; leave {name} at {default!r}"
            )


def initialize(request: Request) -> None:
    """Set up the parallel state that `request` describes, or check that it is the one in force."""
    world = _state.world()
    if world is None:
        raise AssertionError(
            "initialize_model_parallel() needs torch.distributed and a world: the stub of "
            "megatron.core.mpu works inside the function that World.run runs"
        )
    if request.virtual_pp is not None and not request.pp > 1:
        raise RuntimeError(
            "virtual_pipeline_model_parallel_size needs pipeline_model_parallel_size above 1, "
            f"got {request.virtual_pp!r} and {request.pp!r}"
        )
    layout = _layout_for(world.layout.world_size, request)
    state = _state.current()
    if state is None:
        state = _state.reinitialize(layout)
    elif not _same_groups(state.layout, layout):
        raise AssertionError(
            "model parallel is already initialized: this rank started with "
            f"{state.layout}, and initialize_model_parallel() asks for {layout}; ask for that world "
            "instead, or call destroy_model_parallel() on every rank first"
        )
    state.set_options(
        embedding_ranks=_own_ranks(state, request.embedding_ranks),
        position_embedding_ranks=_own_ranks(state, request.position_embedding_ranks),
        gloo_groups=request.gloo_groups,
        all_gather_group=request.all_gather_group,
    )
    if request.virtual_pp is not None:
        _state.overrides["virtual pp size"] = request.virtual_pp
        _state.overrides["virtual pp rank"] = 0


def _same_groups(one: Layout, other: Layout) -> bool:
    """Whether the layouts differ at most in how their order names axes that nobody uses."""
    return all(one.groups(name) == other.groups(name) for name in one.group_names())


def _layout_for(world_size: int, request: Request) -> Layout:
    tp = positive_int("tensor_model_parallel_size", request.tp)
    pp = positive_int("pipeline_model_parallel_size", request.pp)
    cp = positive_int("context_parallel_size", request.cp)
    ep = positive_int("expert_model_parallel_size", request.ep)
    etp = tp if request.etp is None else positive_int("expert_tensor_parallel_size", request.etp)
    if world_size % (tp * pp * cp):
        raise RuntimeError(
            f"the world size {world_size} is not divisible by tensor_model_parallel_size*"
            f"pipeline_model_parallel_size*context_parallel_size = {tp}*{pp}*{cp} = {tp * pp * cp}"
        )
    dp = world_size // (tp * pp * cp)
    edp = world_size // (etp * ep * pp)
    largest = {"tp": max(tp, etp), "cp": cp, "ep": ep, "dp": max(dp, edp), "pp": pp}
    try:
        order = _complete(request.order, largest)
        return Layout(dp=dp, cp=cp, tp=tp, pp=pp, ep=ep, etp=etp, order=order)
    except ValueError as error:
        # The type that Megatron raises for a shape that does not divide.
        raise RuntimeError(f"initialize_model_parallel(): {error}") from error


def _complete(order: str, largest: Mapping[str, int]) -> str:
    """Add the axes of size 1 that Megatron lets an order leave out, such as cp in "tp-dp-pp"."""
    if not isinstance(order, str):
        raise TypeError(f'order must be a string such as "{DEFAULT_ORDER}", got {order!r}')
    named = order.lower().split("-")
    unused = [axis for axis, size in largest.items() if size == 1 and axis not in named]
    # In front, where an axis of size 1 changes nothing, not even whether the order ends in pp.
    return "-".join(unused + named)


def _own_ranks(
    state: _state.ParallelState, choose: EmbeddingRanks | None
) -> tuple[int, ...] | None:
    """This rank's group among those that `choose` picks from each pipeline; None for the default."""
    if choose is None:
        return None
    for pipeline in state.layout.groups("pp"):
        # torch orders the ranks of a group, whatever order they are given in.
        ranks = tuple(sorted(choose(list(pipeline))))
        if state.rank in ranks:
            return ranks
    return ()
