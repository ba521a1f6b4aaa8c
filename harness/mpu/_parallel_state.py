"""The functions of `megatron.core.parallel_state`, as user code sees them.

This module object itself is what `sys.modules` holds under that name, so that patching a function
of it has the effect that it has on Megatron's. Everything after a function's first parameter is
keyword-only, because the second one changed between releases of Megatron. The parameters are those
of the releases 0.16 to 0.19 together. Names that are no functions of Megatron's are private.
"""

from __future__ import annotations

import difflib as _difflib
import warnings as _warnings
from collections.abc import Callable as _Callable
from collections.abc import Sequence as _Sequence
from typing import Any as _Any

from harness.layout import DEFAULT_ORDER as _DEFAULT_ORDER
from harness.mpu import _initialize, _query, _state
from harness.mpu._combined import (  # noqa: F401 # part of the face of this module
    get_amax_reduction_group,
    get_tensor_and_context_parallel_group,
    get_tensor_and_context_parallel_rank,
    get_tensor_and_context_parallel_world_size,
    get_tensor_and_data_parallel_group,
)
from harness.mpu._expert import (  # noqa: F401 # part of the face of this module
    get_data_modulo_expert_parallel_group,
    get_expert_data_parallel_group,
    get_expert_data_parallel_group_gloo,
    get_expert_data_parallel_rank,
    get_expert_data_parallel_world_size,
    get_expert_model_parallel_group,
    get_expert_model_parallel_rank,
    get_expert_model_parallel_src_rank,
    get_expert_model_parallel_world_size,
    get_expert_tensor_and_model_parallel_group,
    get_expert_tensor_and_model_parallel_rank,
    get_expert_tensor_and_model_parallel_world_size,
    get_expert_tensor_model_pipeline_parallel_group,
    get_expert_tensor_parallel_group,
    get_expert_tensor_parallel_rank,
    get_expert_tensor_parallel_world_size,
    get_inter_distributed_optimizer_instance_group,
    get_intra_distributed_optimizer_instance_group,
    set_expert_model_parallel_rank,
    set_expert_model_parallel_world_size,
    set_expert_tensor_parallel_rank,
    set_expert_tensor_parallel_world_size,
)
from harness.mpu._unmodelled import UNMODELLED as _UNMODELLED
from harness.mpu._unmodelled import unmodelled as _unmodelled

# --- initialising -------------------------------------------------------------------------------


def initialize_model_parallel(
    tensor_model_parallel_size: int = 1,
    *,
    pipeline_model_parallel_size: int = 1,
    virtual_pipeline_model_parallel_size: int | None = None,
    pipeline_model_parallel_comm_backend: str | None = None,
    use_sharp: bool = False,
    context_parallel_size: int = 1,
    hierarchical_context_parallel_sizes: list[int] | None = None,
    hybrid_context_parallel: bool = False,
    expert_model_parallel_size: int = 1,
    gtp_remat_size: int = 1,
    expert_gtp_remat_size: int = 1,
    num_distributed_optimizer_instances: int = 1,
    expert_tensor_parallel_size: int | None = None,
    nccl_communicator_config_path: str | None = None,
    distributed_timeout_minutes: int = 30,
    order: str = _DEFAULT_ORDER,
    get_embedding_ranks: _Callable[[list[int]], _Sequence[int]] | None = None,
    get_position_embedding_ranks: _Callable[[list[int]], _Sequence[int]] | None = None,
    create_gloo_process_groups: bool = True,
    high_priority_stream_groups: list[str] | None = None,
    sharp_enabled_group: str | None = None,
    create_all_gather_group: bool | None = False,
    rank_offset: int = 0,
    local_world_size: int | None = None,
) -> None:
    """Set up the parallel state of this rank, or confirm the one its world started with.

    The options for NCCL, streams and the timeout have no meaning here and are ignored: every group
    has the world's timeout.
    """
    _initialize.refuse_unmodelled(
        {
            "use_sharp": (use_sharp, False),
            "sharp_enabled_group": (sharp_enabled_group, None),
            "hierarchical_context_parallel_sizes": (hierarchical_context_parallel_sizes, None),
            "hybrid_context_parallel": (hybrid_context_parallel, False),
            "num_distributed_optimizer_instances": (num_distributed_optimizer_instances, 1),
            "gtp_remat_size": (gtp_remat_size, 1),
            "expert_gtp_remat_size": (expert_gtp_remat_size, 1),
            "rank_offset": (rank_offset, 0),
            "local_world_size": (local_world_size, None),
        }
    )
    _initialize.initialize(
        _initialize.Request(
            tp=tensor_model_parallel_size,
            pp=pipeline_model_parallel_size,
            cp=context_parallel_size,
            ep=expert_model_parallel_size,
            etp=expert_tensor_parallel_size,
            virtual_pp=virtual_pipeline_model_parallel_size,
            order=order,
            embedding_ranks=get_embedding_ranks,
            position_embedding_ranks=get_position_embedding_ranks,
            gloo_groups=create_gloo_process_groups,
            all_gather_group=bool(create_all_gather_group),
        )
    )


def destroy_model_parallel() -> None:
    """Forget all groups and all that set_* functions set; the process stays in its world."""
    _state.destroy()


def is_initialized() -> bool:
    """Whether the parallel state is set up."""
    return _state.current() is not None


def is_unitialized() -> bool:
    """Deprecated by Megatron, and so spelled by it: the opposite of `is_initialized`."""
    _warnings.warn("use is_initialized instead", DeprecationWarning, stacklevel=2)
    return not is_initialized()


def model_parallel_is_initialized() -> bool:
    """Whether the tensor-, pipeline- and data-parallel groups are set up."""
    return is_initialized()


def create_group(
    ranks: list[int] | None = None,
    *,
    timeout: _Any = None,
    backend: str | None = None,
    pg_options: _Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
) -> _Any:
    """`torch.distributed.new_group`, which every rank of the world has to call."""
    import torch.distributed

    return torch.distributed.new_group(
        ranks=ranks,
        timeout=timeout,
        backend=backend,
        pg_options=pg_options,
        use_local_synchronization=use_local_synchronization,
        group_desc=group_desc,
    )


# --- the dense grid -----------------------------------------------------------------------------


def get_model_parallel_group(check_initialized: bool = True) -> _Any:
    """The tp-pp group."""
    return _query.group("tp-pp", check_initialized)


def get_model_parallel_src_rank() -> int:
    """The first rank of the tp-pp group."""
    return _query.ranks("tp-pp")[0]


def get_tensor_model_parallel_group(check_initialized: bool = True) -> _Any:
    """The tp group."""
    return _query.group("tp", check_initialized)


def get_tensor_model_parallel_world_size() -> int:
    """The size of the tp group, or what was set."""
    size = _state.overrides.get("tp size")
    return len(_query.ranks("tp")) if size is None else size


def set_tensor_model_parallel_world_size(world_size: int | None) -> None:
    """Make `get_tensor_model_parallel_world_size` return this; None undoes it."""
    _state.overrides["tp size"] = world_size


def get_tensor_model_parallel_rank() -> int:
    """The position in the tp group, or what was set."""
    rank = _state.overrides.get("tp rank")
    return _query.position("tp") if rank is None else rank


def set_tensor_model_parallel_rank(rank: int | None) -> None:
    """Make `get_tensor_model_parallel_rank` return this; None undoes it."""
    _state.overrides["tp rank"] = rank


def get_tensor_model_parallel_src_rank() -> int:
    """The first rank of the tp group."""
    return _query.ranks("tp")[0]


def get_data_parallel_group(
    with_context_parallel: bool = False,
    *,
    with_gtp_remat: bool = True,
    partial_data_parallel: bool = False,
    independent_all_gather: bool = False,
) -> _Any:
    """The dp group, which leaves context parallelism out, or the dp-cp group."""
    name = _query.data_name(with_context_parallel, partial_data_parallel)
    if independent_all_gather and with_context_parallel and not partial_data_parallel:
        if not has_separate_all_gather_group():
            raise AssertionError(
                "the dp-cp group for all-gathers is not initialized: call "
                "initialize_model_parallel() with create_all_gather_group=True"
            )
        return _query.group("dp-cp-ag")
    return _query.group(name)


def has_separate_all_gather_group() -> bool:
    """Whether `initialize_model_parallel` was asked for a second dp-cp group for all-gathers."""
    state = _state.current()
    return state is not None and state.all_gather_group


def get_data_parallel_group_gloo(
    with_context_parallel: bool = False, *, partial_data_parallel: bool = False
) -> _Any:
    """The second group over the ranks of the dp, or the dp-cp, group."""
    return _query.gloo_group(_query.data_name(with_context_parallel, partial_data_parallel))


def get_data_parallel_world_size(
    with_context_parallel: bool = False,
    *,
    with_gtp_remat: bool = True,
    partial_data_parallel: bool = False,
) -> int:
    """The size of the dp, or the dp-cp, group; 0 when torch.distributed is not initialised."""
    if not _query.in_use():
        return 0
    return len(_query.ranks(_query.data_name(with_context_parallel, partial_data_parallel)))


def get_data_parallel_rank(
    with_context_parallel: bool = False,
    *,
    with_gtp_remat: bool = True,
    partial_data_parallel: bool = False,
) -> int:
    """The position in the dp, or the dp-cp, group, or what was set."""
    rank = _state.overrides.get("dp rank")
    if rank is not None:
        return rank
    if not _query.in_use():
        return 0
    return _query.position(_query.data_name(with_context_parallel, partial_data_parallel))


def set_data_parallel_rank(rank: int | None) -> None:
    """Make `get_data_parallel_rank` return this; None undoes it."""
    _state.overrides["dp rank"] = rank


def get_data_parallel_src_rank(with_context_parallel: bool = False) -> int:
    """The first rank of the dp, or the dp-cp, group."""
    return _query.ranks(_query.data_name(with_context_parallel, False))[0]


def get_context_parallel_group(check_initialized: bool = True) -> _Any:
    """The cp group."""
    return _query.group("cp", check_initialized)


def get_context_parallel_world_size() -> int:
    """The size of the cp group; 0 when torch.distributed is not initialised."""
    return len(_query.ranks("cp")) if _query.in_use() else 0


def get_context_parallel_rank() -> int:
    """The position in the cp group; 0 when torch.distributed is not initialised."""
    return _query.position("cp") if _query.in_use() else 0


def get_context_parallel_global_ranks(check_initialized: bool = True) -> list[int] | None:
    """The ranks of the cp group."""
    if not check_initialized and _state.current() is None:
        return None
    return list(_query.ranks("cp"))


def get_hybrid_data_context_parallel_groups(
    check_initialized: bool = True, *, group_size: int | None = None
) -> _Any:
    """The dp-cp group when it has that size; the smaller ones are not modelled."""
    if get_data_parallel_world_size(with_context_parallel=True) == group_size:
        return _query.group("dp-cp", check_initialized)
    raise NotImplementedError(
        f"get_hybrid_data_context_parallel_groups(group_size={group_size!r}) is not modelled by the "
        "pytest-collectives stub of megatron.core.mpu; only the size of the dp-cp group is"
    )


# --- pipelines ----------------------------------------------------------------------------------


def get_pipeline_model_parallel_group(check_initialized: bool = True) -> _Any:
    """The pp group."""
    return _query.group("pp", check_initialized)


def get_pipeline_model_parallel_world_size() -> int:
    """The size of the pp group, or what was set."""
    size = _state.overrides.get("pp size")
    return len(_query.ranks("pp")) if size is None else size


def set_pipeline_model_parallel_world_size(world_size: int | None) -> None:
    """Make `get_pipeline_model_parallel_world_size` return this; None undoes it."""
    _state.overrides["pp size"] = world_size


def get_pipeline_model_parallel_rank() -> int:
    """The stage, or what was set."""
    rank = _state.overrides.get("pp rank")
    return _query.position("pp") if rank is None else rank


def set_pipeline_model_parallel_rank(rank: int | None) -> None:
    """Make `get_pipeline_model_parallel_rank` return this; None undoes it."""
    _state.overrides["pp rank"] = rank


def get_pipeline_model_parallel_first_rank() -> int:
    """The rank of the first stage of this pipeline."""
    return _query.ranks("pp")[0]


def get_pipeline_model_parallel_last_rank() -> int:
    """The rank of the last stage of this pipeline."""
    return _query.ranks("pp")[get_pipeline_model_parallel_world_size() - 1]


def get_pipeline_model_parallel_next_rank() -> int:
    """The rank of the next stage; the first follows the last."""
    ranks, stage = _query.ranks("pp"), get_pipeline_model_parallel_rank()
    return ranks[(stage + 1) % get_pipeline_model_parallel_world_size()]


def get_pipeline_model_parallel_prev_rank() -> int:
    """The rank of the previous stage; the last precedes the first."""
    ranks, stage = _query.ranks("pp"), get_pipeline_model_parallel_rank()
    return ranks[(stage - 1) % get_pipeline_model_parallel_world_size()]


def get_virtual_pipeline_model_parallel_rank() -> int | None:
    """The virtual stage that was set."""
    return _state.overrides.get("virtual pp rank")


def set_virtual_pipeline_model_parallel_rank(rank: int | None) -> None:
    """Set the virtual stage; deprecated by Megatron in favour of `vp_stage`."""
    _warnings.warn(
        "set_virtual_pipeline_model_parallel_rank is deprecated by Megatron: pass vp_stage to "
        "is_pipeline_first_stage and is_pipeline_last_stage",
        DeprecationWarning,
        stacklevel=2,
    )
    _state.overrides["virtual pp rank"] = rank


def get_virtual_pipeline_model_parallel_world_size() -> int | None:
    """The number of virtual stages that was set."""
    return _state.overrides.get("virtual pp size")


def set_virtual_pipeline_model_parallel_world_size(world_size: int | None) -> None:
    """Set the number of virtual stages."""
    _state.overrides["virtual pp size"] = world_size


def is_pipeline_first_stage(ignore_virtual: bool = True, *, vp_stage: int | None = None) -> bool:
    """Whether this is the first stage, and the first virtual one unless that is ignored."""
    if _virtual_stages(ignore_virtual, vp_stage) is not None and vp_stage != 0:
        return False
    return get_pipeline_model_parallel_rank() == 0


def is_pipeline_last_stage(ignore_virtual: bool = True, *, vp_stage: int | None = None) -> bool:
    """Whether this is the last stage, and the last virtual one unless that is ignored."""
    stages = _virtual_stages(ignore_virtual, vp_stage)
    if stages is not None and vp_stage != stages - 1:
        return False
    return get_pipeline_model_parallel_rank() == get_pipeline_model_parallel_world_size() - 1


def _virtual_stages(ignore_virtual: bool, vp_stage: int | None) -> int | None:
    stages = None if ignore_virtual else get_virtual_pipeline_model_parallel_world_size()
    if stages is not None and vp_stage is None:
        raise AssertionError(f"pass vp_stage: there are {stages} virtual stages")
    return stages


def get_embedding_group(check_initialized: bool = True) -> _Any:
    """The group of the stages that hold a word embedding, if this is one of them."""
    return _query.group("embd", check_initialized)


def get_position_embedding_group(check_initialized: bool = True) -> _Any:
    """The group of the stages that hold a position embedding, if this is one of them."""
    return _query.group("pos_embd", check_initialized)


def is_rank_in_embedding_group(ignore_virtual: bool = True, *, vp_stage: int | None = None) -> bool:
    """Whether this rank, and its virtual stage unless ignored, holds a word embedding."""
    ranks, rank = _embedding_ranks("embd")
    if rank not in ranks:
        return False
    if ignore_virtual:
        return True
    if rank == ranks[0]:
        return is_pipeline_first_stage(ignore_virtual=False, vp_stage=vp_stage)
    if rank == ranks[-1]:
        return is_pipeline_last_stage(ignore_virtual=False, vp_stage=vp_stage)
    return True


def is_rank_in_position_embedding_group() -> bool:
    """Whether this rank holds a position embedding."""
    ranks, rank = _embedding_ranks("pos_embd")
    return rank in ranks


def _embedding_ranks(name: str) -> tuple[tuple[int, ...], int]:
    state = _state.current()
    if state is not None:
        return state.ranks(name), state.rank
    if not _query.in_use():
        raise ValueError("torch.distributed is not initialized, so this process has no rank")
    return (), 0


def default_embedding_ranks(pp_ranks: list[int]) -> list[int]:
    """The first and the last stage of a pipeline."""
    return list(dict.fromkeys((pp_ranks[0], pp_ranks[-1])))


def default_position_embedding_ranks(pp_ranks: list[int]) -> list[int]:
    """The first stage of a pipeline."""
    return [pp_ranks[0]]


# --- the rest -----------------------------------------------------------------------------------


def get_all_ranks() -> str:
    """The positions in tp, dp, cp, pp and ep, joined by underscores."""
    positions = (
        get_tensor_model_parallel_rank(),
        get_data_parallel_rank(),
        get_context_parallel_rank(),
        get_pipeline_model_parallel_rank(),
        get_expert_model_parallel_rank(),
    )
    return "_".join(str(position or 0) for position in positions)


def destroy_global_memory_buffer() -> None:
    """Nothing to do: there is no such buffer here."""


def destroy_global_symmetric_memory_buffer() -> None:
    """Nothing to do: there is no such buffer here."""


def __getattr__(name: str) -> _Any:
    """The functions that are not modelled, and for other names an error that says whose this is."""
    if name in _UNMODELLED:
        return _unmodelled(name)
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    public = [known for known in globals() if not known.startswith("_")]
    close = _difflib.get_close_matches(name, public, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise AttributeError(
        f"the pytest-collectives stub of megatron.core.mpu has no {name}{hint}", name=name
    )
