"""Groups as a rank sees them: who made which, in what order, and under which name.

torch makes groups through its store, with no operator to hook, so its few creating functions are
wrapped. The same place gives each group the world's timeout, which ``new_group`` does not inherit.
"""

from __future__ import annotations

import functools
import inspect
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as torch_c10d

from harness.record._stacks import user_stack

if TYPE_CHECKING:
    from harness.record._recorder import Recorder


class GroupWatch:
    """Wraps the creation and destruction of groups; knows each group's key and members."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.name_of: Callable[[tuple[int, ...]], str | None] = lambda _: None
        """Megatron's name for the group of these members, if it is one of the grid."""
        self._known: dict[str, tuple[Any, tuple[int, ...]]] = {}
        self._real: list[tuple[Any, str, Any]] = []
        self._creations = 0
        self.longest: timedelta | None = None
        """No group that is made from now on waits longer than this."""

    def install(self) -> None:
        """Wrap torch's functions."""
        self._wrap(torch_c10d, "_new_group_with_tag", self._creating)
        if hasattr(torch_c10d, "split_group"):
            self._wrap(torch_c10d, "split_group", self._splitting)
            if getattr(dist, "split_group", None) is not None:
                self._replace(dist, "split_group", torch_c10d.split_group)
        if hasattr(torch_c10d, "_warn_not_in_group"):
            self._wrap(torch_c10d, "_warn_not_in_group", self._not_in_group)
        self._wrap(torch_c10d, "destroy_process_group", self._destroying)
        self._replace(dist, "destroy_process_group", torch_c10d.destroy_process_group)

    def uninstall(self) -> None:
        """Put torch's own functions back."""
        for module, name, real in reversed(self._real):
            setattr(module, name, real)
        self._real = []

    def _replace(self, module: Any, name: str, new: Any) -> None:
        self._real.append((module, name, getattr(module, name)))
        setattr(module, name, new)

    def _wrap(self, module: Any, name: str, around: Callable[..., Any]) -> None:
        real = getattr(module, name)
        signature = inspect.signature(real)

        @functools.wraps(real)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError:
                return real(*args, **kwargs)  # torch says itself what is wrong
            return around(real, bound)

        self._replace(module, name, wrapped)

    # -- what is known ----------------------------------------------------------------------

    def known(self, group: Any) -> tuple[str, tuple[int, ...]]:
        """The key of a group and its members as global ranks; announces one not seen before."""
        key: str = group.group_name
        entry = self._known.get(key)
        if entry is None:
            entry = self.announce(group, "")
        return key, entry[1]

    def announce(self, group: Any, name: str) -> tuple[Any, tuple[int, ...]]:
        """Tell the supervisor of a group, under Megatron's ``name`` where it has one."""
        key = group.group_name
        mapping = torch_c10d._world.pg_group_ranks.get(group)
        if mapping is None:
            # torch's registry is keyed by object; the same group may come as another object.
            mapping = next(
                (m for g, m in torch_c10d._world.pg_group_ranks.items() if g.group_name == key),
                {rank: rank for rank in range(group.size())},
            )
        ranks = tuple(sorted(mapping, key=mapping.__getitem__))
        if not name and 1 < len(ranks) < dist.get_world_size():
            name = self.name_of(ranks) or ""  # made by the user, but it is a group of the grid
        entry = (group, ranks)
        self._known[key] = entry
        self._recorder.channel.send("GroupMade", key, ranks, name)
        return entry

    # -- wrapped calls ----------------------------------------------------------------------

    def _bounded(self, asked: timedelta | None) -> timedelta | None:
        if self.longest is None:
            return asked
        return self.longest if asked is None else min(asked, self.longest)

    def _creating(self, real: Callable[..., Any], bound: inspect.BoundArguments) -> Any:
        bound.arguments["timeout"] = self._bounded(bound.arguments.get("timeout"))
        ranks = bound.arguments.get("ranks")
        everyone = range(dist.get_world_size())
        local = bool(bound.arguments.get("use_local_synchronization", False))
        if local and ranks is not None and self._recorder.rank not in ranks:
            return real(*bound.args, **bound.kwargs)  # such a rank has no part in it
        members = tuple(sorted(ranks)) if ranks is not None else tuple(everyone)
        return self._record_creation(real, bound, members, local)

    def _splitting(self, real: Callable[..., Any], bound: inspect.BoundArguments) -> Any:
        bound.arguments["timeout"] = self._bounded(bound.arguments.get("timeout"))
        ours = [r for r in bound.arguments.get("split_ranks") or [] if self._recorder.rank in r]
        return self._record_creation(real, bound, tuple(sorted(ours[0])) if ours else (), True)

    def _record_creation(
        self,
        real: Callable[..., Any],
        bound: inspect.BoundArguments,
        members: tuple[int, ...],
        local: bool,
    ) -> Any:
        recorder = self._recorder
        number, thread = recorder.next_call(), recorder.threads.number()
        stack, _, _ = user_stack(sys._getframe(2))
        index = self._creations
        if not local:
            self._creations += 1
        recorder.channel.send_with_stack(
            stack, "Creation", number, thread, index, members, local, time.monotonic()
        )
        try:
            made = real(*bound.args, **bound.kwargs)
        except BaseException as error:
            recorder.failed(number, thread, error)
            raise
        if isinstance(made, dist.ProcessGroup):
            self.announce(made, "")
        recorder.channel.send("Finished", number, thread, time.monotonic())
        return made

    def _not_in_group(self, real: Callable[..., Any], bound: inspect.BoundArguments) -> Any:
        recorder = self._recorder
        stack, _, _ = user_stack(sys._getframe(2))
        op = str(next(iter(bound.arguments.values()), ""))
        recorder.channel.send_with_stack(
            stack,
            "NonMember",
            recorder.next_call(),
            recorder.threads.number(),
            op,
            time.monotonic(),
        )
        return real(*bound.args, **bound.kwargs)

    def _destroying(self, real: Callable[..., Any], bound: inspect.BoundArguments) -> Any:
        recorder = self._recorder
        group = bound.arguments.get("group")
        key = ""
        if group is not None and group is not dist.group.WORLD and hasattr(group, "group_name"):
            key = group.group_name
        number, thread = recorder.next_call(), recorder.threads.number()
        stack, _, _ = user_stack(sys._getframe(2))
        recorder.channel.send_with_stack(
            stack, "Destruction", number, thread, key, time.monotonic()
        )
        try:
            result = real(*bound.args, **bound.kwargs)
        except BaseException as error:
            recorder.failed(number, thread, error)
            raise
        if not key:  # the group of one key stays known: a call on it is a use after its end
            self._known.clear()
            self._creations = 0
        recorder.channel.send("Finished", number, thread, time.monotonic())
        return result
