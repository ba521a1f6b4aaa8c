"""The functions of `megatron.core.parallel_state` on the expert grid; a part of `_parallel_state`."""

from __future__ import annotations

import warnings
from typing import Any

from harness.mpu import _query, _state


def get_expert_model_parallel_group(check_initialized: bool = True) -> Any:
    """The ep group."""
    return _query.group("ep", check_initialized)


def get_expert_model_parallel_src_rank() -> int:
    """The first rank of the ep group."""
    return _query.ranks("ep")[0]


def get_expert_model_parallel_world_size() -> int:
    """The size of the ep group, or what was set; 0 when torch.distributed is not initialised."""
    size = _state.overrides.get("ep size")
    if size is not None:
        return size
    return len(_query.ranks("ep")) if _query.in_use() else 0


def set_expert_model_parallel_world_size(world_size: int | None) -> None:
    """Make `get_expert_model_parallel_world_size` return this; None undoes it."""
    _state.overrides["ep size"] = world_size


def get_expert_model_parallel_rank() -> int:
    """The position in the ep group, or what was set; 0 when torch.distributed is not initialised."""
    rank = _state.overrides.get("ep rank")
    if rank is not None:
        return rank
    return _query.position("ep") if _query.in_use() else 0


def set_expert_model_parallel_rank(rank: int | None) -> None:
    """Make `get_expert_model_parallel_rank` return this; None undoes it."""
    _state.overrides["ep rank"] = rank


def get_expert_tensor_parallel_group(check_initialized: bool = True) -> Any:
    """The etp group."""
    return _query.group("etp", check_initialized)


def get_expert_tensor_parallel_world_size() -> int | None:
    """The size of the etp group, or what was set; not initialised, what was set for tp."""
    size = _state.overrides.get("etp size")
    if size is None and _state.current() is None:
        return _state.overrides.get("tp size")
    return len(_query.ranks("etp")) if size is None else size


def set_expert_tensor_parallel_world_size(world_size: int | None) -> None:
    """Make `get_expert_tensor_parallel_world_size` return this; None undoes it."""
    _state.overrides["etp size"] = world_size


def get_expert_tensor_parallel_rank() -> int | None:
    """The position in the etp group, or what was set; not initialised, what was set for tp."""
    rank = _state.overrides.get("etp rank")
    if rank is None and _state.current() is None:
        return _state.overrides.get("tp rank")
    return _query.position("etp") if rank is None else rank


def set_expert_tensor_parallel_rank(rank: int | None) -> None:
    """Make `get_expert_tensor_parallel_rank` return this; None undoes it."""
    _state.overrides["etp rank"] = rank


def get_expert_tensor_and_model_parallel_group(check_initialized: bool = True) -> Any:
    """The etp-ep group."""
    return _query.group("etp-ep", check_initialized)


def get_expert_tensor_and_model_parallel_world_size() -> int:
    """The size of the etp-ep group; 0 when torch.distributed is not initialised."""
    return len(_query.ranks("etp-ep")) if _query.in_use() else 0


def get_expert_tensor_and_model_parallel_rank() -> int:
    """The position in the etp-ep group; 0 when torch.distributed is not initialised."""
    return _query.position("etp-ep") if _query.in_use() else 0


def get_expert_tensor_model_pipeline_parallel_group(
    check_initialized: bool = True, *, with_egtp_remat: bool = False
) -> Any:
    """The etp-ep-pp group."""
    return _query.group("etp-ep-pp", check_initialized)


def get_expert_data_parallel_group(
    check_initialized: bool = True,
    *,
    with_gtp_remat: bool = True,
    partial_expert_data_parallel: bool = False,
) -> Any:
    """The edp group."""
    return _query.group("edp", check_initialized)


def get_data_modulo_expert_parallel_group(partial_expert_data_parallel: bool = False) -> Any:
    """Deprecated by Megatron: `get_expert_data_parallel_group`."""
    warnings.warn("use get_expert_data_parallel_group instead", DeprecationWarning, stacklevel=2)
    return get_expert_data_parallel_group(partial_expert_data_parallel=partial_expert_data_parallel)


def get_expert_data_parallel_group_gloo(partial_expert_data_parallel: bool = False) -> Any:
    """The second group over the ranks of the edp group."""
    return _query.gloo_group("edp")


def get_expert_data_parallel_rank(
    partial_expert_data_parallel: bool = False, *, with_gtp_remat: bool = True
) -> int:
    """The position in the edp group; 0 when torch.distributed is not initialised."""
    return _query.position("edp") if _query.in_use() else 0


def get_expert_data_parallel_world_size(
    partial_expert_data_parallel: bool = False, *, with_gtp_remat: bool = True
) -> int:
    """The size of the edp group; 0 when torch.distributed is not initialised."""
    return len(_query.ranks("edp")) if _query.in_use() else 0


# Megatron builds the groups of the distributed optimizer on the expert grid.


def get_intra_distributed_optimizer_instance_group(check_initialized: bool = True) -> Any:
    """All ranks of this optimizer instance, which are those of the world: there is one instance."""
    return _query.group("intra_dist_opt", check_initialized)


def get_inter_distributed_optimizer_instance_group(check_initialized: bool = True) -> Any:
    """The group across optimizer instances: none, since there is one instance."""
    if check_initialized:
        if _state.current() is None:
            raise _query.not_initialized("the group across optimizer instances")
        raise AssertionError(
            "the group across optimizer instances is not initialized: there is one instance, as "
            "num_distributed_optimizer_instances above 1 is not modelled"
        )
