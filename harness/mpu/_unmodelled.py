"""Functions of Megatron's that have no meaning on gloo, or that no test has needed yet.

They can be imported; calling one says its name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NoReturn

UNMODELLED = frozenset(
    {
        "RankGenerator",
        "create_all_gather_groups",
        "create_hierarchical_groups",
        "create_hybrid_dp_cp_groups",
        "generate_masked_orthogonal_rank_groups",
        "get_expert_gtp_weight_remat_global_ranks",
        "get_expert_gtp_weight_remat_group",
        "get_expert_gtp_weight_remat_rank",
        "get_expert_gtp_weight_remat_world_size",
        "get_global_memory_buffer",
        "get_global_symmetric_memory_buffer",
        "get_gtp_weight_remat_global_ranks",
        "get_gtp_weight_remat_group",
        "get_gtp_weight_remat_rank",
        "get_gtp_weight_remat_world_size",
        "get_hierarchical_context_parallel_groups",
        "get_nccl_options",
        "overwrite_nccl_comm_cfgs",
        "update_pg_timeout",
    }
)


# Cached, so that a function imported twice is one object.
@cache
def unmodelled(name: str) -> Callable[..., NoReturn]:
    """The function of that name; it raises NotImplementedError."""

    def function(*args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(
            f"{name}() is not modelled by the pytest-collectives stub of megatron.core.mpu"
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Not modelled: raises NotImplementedError."
    return function
