"""The stub of megatron.core.mpu in one process: no ranks are started, groups are stand-ins."""

from __future__ import annotations

import pickle
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from harness.layout import Layout, Rank
from harness.mpu import _parallel_state as stub
from harness.mpu import activate, deactivate, live_group, reset
from harness.mpu._unmodelled import UNMODELLED


class Made:
    """Makes stand-ins for groups, and remembers which."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[int, ...]]] = []

    def __call__(self, name: str, ranks: tuple[int, ...]) -> Any:
        self.calls.append((name, ranks))
        return f"group {len(self.calls)}"


@pytest.fixture
def made() -> Iterator[Made]:
    """The groups made in a world that the test activates."""
    yield Made()
    deactivate()


@pytest.fixture(autouse=True)
def _modules_are_put_back() -> Iterator[None]:
    before = dict(sys.modules)
    finders = list(sys.meta_path)
    yield
    changed = {
        name
        for name in before.keys() | sys.modules.keys()
        if name.partition(".")[0] in ("megatron", "flash_attn", "half", "user_code")
        and before.get(name) is not sys.modules.get(name)
    }
    assert set() == changed
    assert finders == sys.meta_path


# --- groups -------------------------------------------------------------------------------------


def test_groups_are_made_when_first_asked_for(made: Made) -> None:
    """Sizes and ranks make no group; a group is made once and then the same object."""
    activate(Layout(dp=2, cp=2), 3, made)
    assert (2, 1) == (stub.get_data_parallel_world_size(), stub.get_context_parallel_rank())
    assert [] == made.calls
    group = stub.get_data_parallel_group()
    assert group is stub.get_data_parallel_group(with_context_parallel=False)
    assert [("dp", (1, 3))] == made.calls


def test_groups_over_the_same_ranks_are_different_groups(made: Made) -> None:
    """Megatron's groups over equal ranks are separate, also the one over all ranks."""
    activate(Layout(dp=2), 0, made)
    face: Any = stub
    groups = [
        face.get_data_parallel_group(),
        face.get_data_parallel_group(with_context_parallel=True),
        face.get_data_parallel_group_gloo(),
        face.get_tensor_and_data_parallel_group(),
    ]
    assert 4 == len(set(groups))
    assert [(name, (0, 1)) for name in ("dp", "dp-cp", "dp-gloo", "tp-dp")] == made.calls


def test_two_threads_get_one_group(made: Made) -> None:
    """Threads that ask for a group at the same time get the same one."""

    def slowly(name: str, ranks: tuple[int, ...]) -> Any:
        time.sleep(0.02)
        return made(name, ranks)

    activate(Layout(dp=2), 0, slowly)
    threads = [threading.Thread(target=stub.get_data_parallel_group) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=5)
    assert 1 == len(made.calls)


def test_functions_imported_by_name_see_every_later_world(made: Made) -> None:
    """A function object is permanent and reads the current world."""
    ask = stub.get_data_parallel_world_size
    assert 0 == ask()
    activate(Layout(dp=2), 0, made)
    assert 2 == ask()
    deactivate()
    activate(Layout(dp=3), 0, made)
    assert 3 == ask()


def test_a_rank_without_an_embedding_has_no_embedding_group(made: Made) -> None:
    """In the middle of a pipeline the embedding group is missing, as in Megatron."""
    activate(Layout(pp=4), 1, made)
    assert not stub.is_rank_in_embedding_group()
    assert stub.get_embedding_group(check_initialized=False) is None
    with pytest.raises(AssertionError, match=r"the embd group is not initialized on rank 1"):
        stub.get_embedding_group()


def test_a_second_world_in_one_process_is_refused(made: Made) -> None:
    """A process is a rank of one world at a time."""
    activate(Layout(dp=2), 1, made)
    with pytest.raises(RuntimeError, match="already rank 1 of Layout"):
        activate(Layout(dp=2), 0, made)


def test_a_failed_activation_leaves_no_world(made: Made) -> None:
    """A rank that the layout does not have is refused, and nothing stays behind."""
    with pytest.raises(ValueError, match="rank 2 is not in this world"):
        activate(Layout(dp=2), 2, made)
    assert not stub.is_initialized()


# --- outside a world ----------------------------------------------------------------------------


def test_outside_a_world_data_parallel_is_zero_and_tensor_parallel_asserts() -> None:
    """Without torch.distributed the getters answer as Megatron's do, with advice."""
    assert (0, 0) == (stub.get_data_parallel_world_size(), stub.get_context_parallel_rank())
    assert not stub.model_parallel_is_initialized()
    with pytest.raises(AssertionError, match="not a rank of a running world"):
        stub.get_tensor_model_parallel_world_size()
    with pytest.raises(AssertionError, match="the dp group is not initialized"):
        stub.get_data_parallel_group()
    with pytest.raises(AssertionError, match=r"inside the function that World\.run runs"):
        stub.initialize_model_parallel()


def test_set_functions_work_outside_a_world_and_end_with_the_next() -> None:
    """What was set answers without a world, and does not leak into the next one."""
    stub.set_tensor_model_parallel_world_size(4)
    stub.set_tensor_model_parallel_rank(3)
    assert (4, 3) == (
        stub.get_tensor_model_parallel_world_size(),
        stub.get_tensor_model_parallel_rank(),
    )
    activate(Layout(tp=2), 1, Made())
    assert 2 == stub.get_tensor_model_parallel_world_size()
    stub.set_tensor_model_parallel_rank(0)
    deactivate()
    with pytest.raises(AssertionError):
        stub.get_tensor_model_parallel_rank()


# --- arguments ----------------------------------------------------------------------------------


def test_a_misspelt_keyword_is_a_type_error(made: Made) -> None:
    """A flag that Megatron does not have is refused, not swallowed."""
    activate(Layout(dp=2), 0, made)
    ask: Any = stub.get_data_parallel_group
    with pytest.raises(TypeError, match="with_contxt_parallel"):
        ask(with_contxt_parallel=True)


def test_parameters_after_the_first_are_keyword_only(made: Made) -> None:
    """The second positional parameter differs between Megatron's releases, so there is none."""
    activate(Layout(dp=2), 0, made)
    ask: Any = stub.get_data_parallel_group
    with pytest.raises(TypeError, match="positional"):
        ask(True, False)


@pytest.mark.parametrize("name", sorted(UNMODELLED))
def test_functions_that_are_not_modelled_say_their_name(name: str) -> None:
    """They can be imported, are one object, and raise NotImplementedError when called."""
    function = getattr(stub, name)
    assert function is getattr(stub, name)
    with pytest.raises(NotImplementedError, match=rf"^{name}\(\) is not modelled"):
        function()


def test_an_unknown_name_gets_a_suggestion() -> None:
    """A misspelt function is answered with the nearest one and whose stub this is."""
    with pytest.raises(AttributeError) as refused:
        _ = stub.get_data_paralel_group
    assert (
        "the pytest-collectives stub of megatron.core.mpu has no get_data_paralel_group; "
        "did you mean get_data_parallel_group?"
    ) == str(refused.value)


def test_hybrid_groups_smaller_than_the_world_are_not_modelled(made: Made) -> None:
    """The group of the full size is the dp-cp group; the others say that they are not modelled."""
    activate(Layout(dp=2, cp=2), 0, made)
    whole = stub.get_hybrid_data_context_parallel_groups(group_size=4)
    assert whole is stub.get_data_parallel_group(with_context_parallel=True)
    with pytest.raises(NotImplementedError, match="group_size=2"):
        stub.get_hybrid_data_context_parallel_groups(group_size=2)


def test_helpers_for_embedding_ranks() -> None:
    """Megatron's default choices of stages are there for callers that build on them."""
    assert [0, 6] == stub.default_embedding_ranks([0, 3, 6])
    assert [4] == stub.default_embedding_ranks([4])
    assert [0] == stub.default_position_embedding_ranks([0, 3, 6])


# --- initialize and destroy ---------------------------------------------------------------------


def test_a_script_may_initialise_what_its_world_already_is(made: Made) -> None:
    """A rank starts initialised, and initialising the same layout keeps its groups."""
    activate(Layout(dp=2, cp=2, tp=2), 0, made)
    group = stub.get_data_parallel_group()
    stub.initialize_model_parallel(tensor_model_parallel_size=2, context_parallel_size=2)
    stub.initialize_model_parallel(2, context_parallel_size=2, order="TP-CP-DP-PP")
    assert group is stub.get_data_parallel_group()


def test_another_layout_needs_a_destroy_first(made: Made) -> None:
    """Initialising another layout says which one is in force and what to do."""
    activate(Layout(dp=2, cp=2), 0, made)
    with pytest.raises(AssertionError) as refused:
        stub.initialize_model_parallel(context_parallel_size=4)
    assert "already initialized: this rank started with Layout(dp=2, cp=2," in str(refused.value)
    assert "asks for Layout(dp=1, cp=4," in str(refused.value)
    assert "call destroy_model_parallel() on every rank first" in str(refused.value)


def test_after_a_destroy_another_layout_is_in_force(made: Made) -> None:
    """Groups of a second initialisation are new, under names that no first one had."""
    activate(Layout(dp=2, cp=2), 1, made)
    stub.get_data_parallel_group()
    stub.set_data_parallel_rank(7)
    stub.destroy_model_parallel()
    assert not stub.is_initialized()
    with pytest.raises(AssertionError, match="call initialize_model_parallel"):
        stub.get_tensor_model_parallel_rank()
    stub.initialize_model_parallel(context_parallel_size=4)
    assert (0, 1) == (stub.get_data_parallel_rank(), stub.get_context_parallel_rank())
    stub.get_context_parallel_group()
    assert [("dp", (1, 3)), ("cp#2", (0, 1, 2, 3))] == made.calls


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (
            {"tensor_model_parallel_size": 3},
            RuntimeError,
            "the world size 8 is not divisible by tensor_model_parallel_size*"
            "pipeline_model_parallel_size*context_parallel_size = 3*1*1 = 3",
        ),
        ({"expert_model_parallel_size": 3}, RuntimeError, "etp*ep*pp = 1*3*1 = 3"),
        ({"context_parallel_size": 0}, ValueError, "context_parallel_size must be an int of at"),
        ({"pipeline_model_parallel_size": 2.0}, TypeError, "pipeline_model_parallel_size must be"),
        ({"virtual_pipeline_model_parallel_size": 2}, RuntimeError, "above 1, got 2 and 1"),
        ({"order": "tp-pp"}, RuntimeError, '"dp" is missing'),
        ({"order": None}, TypeError, "order must be a string"),
        ({"use_sharp": True}, NotImplementedError, "initialize_model_parallel(use_sharp=True)"),
        (
            {"num_distributed_optimizer_instances": 2},
            NotImplementedError,
            "(num_distributed_optimizer_instances=2) is not modelled by the pytest-collectives "
            "stub of megatron.core.mpu; leave num_distributed_optimizer_instances at 1",
        ),
    ],
)
def test_impossible_initialisations_are_refused(
    made: Made, arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    """A shape that does not fit the world is refused by the option's name, with the sum."""
    activate(Layout(dp=8), 0, made)
    stub.destroy_model_parallel()
    with pytest.raises(kind) as refused:
        stub.initialize_model_parallel(**arguments)
    assert message in str(refused.value)


def test_virtual_stages_need_vp_stage(made: Made) -> None:
    """With virtual stages, whether a stage is the first depends on the virtual one."""
    activate(Layout(pp=2), 0, made)
    stub.initialize_model_parallel(
        pipeline_model_parallel_size=2, virtual_pipeline_model_parallel_size=2
    )
    assert stub.is_pipeline_first_stage(ignore_virtual=False, vp_stage=0)
    assert not stub.is_pipeline_first_stage(ignore_virtual=False, vp_stage=1)
    with pytest.raises(AssertionError, match="pass vp_stage: there are 2 virtual stages"):
        stub.is_pipeline_first_stage(ignore_virtual=False)


def test_reset_keeps_groups_and_undoes_overrides(made: Made) -> None:
    """Between two functions run in a world, what the first one set is gone, its groups stay."""
    activate(Layout(dp=2, pp=2), 0, made)
    group = stub.get_data_parallel_group()
    stub.set_pipeline_model_parallel_rank(1)
    stub.initialize_model_parallel(pipeline_model_parallel_size=2, create_gloo_process_groups=False)
    reset()
    assert group is stub.get_data_parallel_group()
    assert stub.is_pipeline_first_stage()
    assert stub.get_data_parallel_group_gloo() is not None


def test_reset_brings_back_the_layout_of_the_world(made: Made) -> None:
    """A function that destroyed the state, or set up another, does not spoil the next one."""
    activate(Layout(dp=2, cp=2), 0, made)
    stub.destroy_model_parallel()
    reset()
    assert 2 == stub.get_data_parallel_world_size()
    stub.destroy_model_parallel()
    stub.initialize_model_parallel()
    reset()
    assert 2 == stub.get_data_parallel_world_size()
    stub.get_data_parallel_group()
    assert [("dp#4", (0, 2))] == made.calls


# --- Rank.group ---------------------------------------------------------------------------------


def test_rank_group_is_the_group_of_the_getter(made: Made) -> None:
    """`rank.group("dp-cp")` and Megatron's getter give the same live group."""
    layout = Layout(dp=2, cp=2)
    activate(layout, 2, made)
    rank = Rank(2, layout)
    assert rank.group("dp-cp") is stub.get_data_parallel_group(with_context_parallel=True)
    assert rank.group("cp-dp") is rank.group("dp-cp")


def test_rank_group_without_a_world_is_refused() -> None:
    """In a process without a world there is no live group."""
    with pytest.raises(RuntimeError, match=r'no live group "dp-cp" in this process'):
        Rank(0, Layout(dp=2)).group("dp-cp")


def test_rank_group_of_another_rank_is_refused(made: Made) -> None:
    """A rank that was sent to another rank's process cannot give its groups there."""
    activate(Layout(dp=2), 0, made)
    with pytest.raises(RuntimeError, match=r'group "dp" of rank 1 .* which is rank 0'):
        Rank(1, Layout(dp=2)).group("dp")


def test_rank_group_after_destroy_and_without_membership_is_refused(made: Made) -> None:
    """A destroyed state, and a group this rank is not in, are said to be so."""
    activate(Layout(pp=3), 1, made)
    with pytest.raises(RuntimeError, match=r'rank 1 is in no group "embd"; .* \[\[0, 2\]\]'):
        live_group("embd")
    stub.destroy_model_parallel()
    with pytest.raises(RuntimeError, match=r"destroy_model_parallel\(\) was called"):
        live_group("pp")


def test_patching_a_function_has_the_effect_it_has_on_megatrons(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Functions that ask others see what a test patched into the module."""
    activate(Layout(pp=2), 0, made)
    monkeypatch.setattr(stub, "get_pipeline_model_parallel_rank", lambda: 1)
    assert stub.is_pipeline_last_stage()


def test_functions_of_the_stub_can_be_pickled() -> None:
    """A function that travels to a rank by reference arrives as the same object."""
    face: Any = stub
    ask = face.get_expert_model_parallel_rank
    assert ask is pickle.loads(pickle.dumps(ask))


def test_deprecated_functions_warn_like_megatrons(made: Made) -> None:
    """What Megatron calls deprecated warns here too."""
    activate(Layout(pp=2), 0, made)
    face: Any = stub
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        face.set_virtual_pipeline_model_parallel_rank(1)
        face.is_unitialized()
        face.get_data_modulo_expert_parallel_group()
    assert [DeprecationWarning] * 3 == [warning.category for warning in caught]
    assert {__file__} == {warning.filename for warning in caught}
