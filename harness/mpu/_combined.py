"""The functions of `megatron.core.parallel_state` on groups of several axes; a part of it."""

from __future__ import annotations

from typing import Any

from harness.mpu import _query


def get_tensor_and_data_parallel_group(
    check_initialized: bool = True, *, with_context_parallel: bool = False
) -> Any:
    """The tp-dp, or the tp-dp-cp, group."""
    return _query.group("tp-dp-cp" if with_context_parallel else "tp-dp", check_initialized)


def get_tensor_and_context_parallel_group(check_initialized: bool = True) -> Any:
    """The tp-cp group."""
    return _query.group("tp-cp", check_initialized)


def get_tensor_and_context_parallel_world_size() -> int:
    """The size of the tp-cp group; 0 when torch.distributed is not initialised."""
    return len(_query.ranks("tp-cp")) if _query.in_use() else 0


def get_tensor_and_context_parallel_rank() -> int:
    """The position in the tp-cp group; 0 when torch.distributed is not initialised."""
    return _query.position("tp-cp") if _query.in_use() else 0


def get_amax_reduction_group(
    with_context_parallel: bool = False, *, tp_only_amax_red: bool = False
) -> Any:
    """The group over which FP8 maxima are reduced: tp, tp-cp, tp-dp or tp-dp-cp."""
    name = "tp" if tp_only_amax_red else "tp-dp"
    return _query.group(f"{name}-cp" if with_context_parallel else name)
