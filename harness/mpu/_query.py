"""What the functions of the stub ask about this rank's groups, and the errors they raise.

Sizes, ranks and members come from the Layout; only `group` and `gloo_group` make a process group.
The errors are of the types that Megatron's own assertions have.
"""

from __future__ import annotations

from typing import Any

from harness.mpu import _state


def not_initialized(what: str) -> AssertionError:
    """The error of Megatron's own assertions, saying what to do about it."""
    if _state.world() is None:
        advice = "this process is not a rank of a running world; call it in what World.run runs"
    else:
        advice = "destroy_model_parallel() was called; call initialize_model_parallel() first"
    return AssertionError(f"{what} is not initialized: {advice}")


def group(name: str, check_initialized: bool = True) -> Any:
    """The live group of that name; without one None, or AssertionError if `check_initialized`."""
    state = _state.current()
    if state is not None and state.ranks(name):
        return state.group(name)
    if not check_initialized:
        return None
    if state is None:
        raise not_initialized(f"the {name} group")
    raise AssertionError(
        f"the {name} group is not initialized on rank {state.rank}, which is in none; those of this "
        f"world are {[list(ranks) for ranks in state.layout.groups(name)]}"
    )


def gloo_group(name: str) -> Any:
    """The second, gloo, group that Megatron makes over the ranks of that group."""
    state = _state.current()
    if state is not None and not state.gloo_groups:
        raise AssertionError(
            f"the gloo group of {name} is not initialized: initialize_model_parallel() was called "
            "with create_gloo_process_groups=False"
        )
    return group(f"{name}-gloo")


def ranks(name: str) -> tuple[int, ...]:
    """The ranks of this rank's group of that name."""
    state = _state.current()
    if state is None:
        raise not_initialized(f"the {name} group")
    return state.ranks(name)


def position(name: str) -> int:
    """The index of this rank in its group of that name."""
    state = _state.current()
    if state is None:
        raise not_initialized(f"the {name} group")
    return state.ranks(name).index(state.rank)


def in_use() -> bool:
    """False where Megatron answers 0: torch.distributed is not initialised at all."""
    return _state.current() is not None or _state.torch_distributed_is_initialized()


def data_name(with_context_parallel: bool, partial_data_parallel: bool) -> str:
    """Which data-parallel group a call means."""
    if with_context_parallel:
        # With one optimizer instance, a partial data-parallel group is the whole.
        return "dp-cp"
    if partial_data_parallel:
        raise AssertionError("partial_data_parallel=True needs with_context_parallel=True")
    return "dp"
