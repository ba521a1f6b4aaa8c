"""One row for each ``c10d::`` operator: how to read a call from its arguments.

This is the place for a new collective of torch: add its row. Arguments are found by their name in
the operator's schema, so that a position that moves between releases does no harm; an argument
that an older release lacks is simply not known there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Operation:
    """``name`` in the words of ``torch.distributed``, then the schema names of its arguments."""

    name: str
    inputs: str | None = None
    outputs: str | None = None
    root: str | None = None
    peer: str | None = None
    input_splits: str | None = None
    output_splits: str | None = None
    nested_inputs: bool = False
    nested_outputs: bool = False
    blocks: bool = False


OPERATIONS: dict[str, Operation] = {
    "allreduce_": Operation("all_reduce", inputs="tensors"),
    "allreduce_coalesced_": Operation("all_reduce_coalesced", inputs="tensors"),
    "broadcast_": Operation("broadcast", inputs="tensors", root="root_rank"),
    "reduce_": Operation("reduce", inputs="tensors", root="root_rank"),
    "allgather_": Operation(
        "all_gather", inputs="input_tensors", outputs="output_tensors", nested_outputs=True
    ),
    "_allgather_base_": Operation(
        "all_gather_into_tensor", inputs="input_tensor", outputs="output_tensor"
    ),
    "allgather_coalesced_": Operation(
        "all_gather_coalesced", inputs="input_list", outputs="output_lists", nested_outputs=True
    ),
    "allgather_into_tensor_coalesced_": Operation(
        "all_gather_into_tensor_coalesced", inputs="inputs", outputs="outputs"
    ),
    "gather_": Operation(
        "gather",
        inputs="input_tensors",
        outputs="output_tensors",
        root="root_rank",
        nested_outputs=True,
    ),
    "scatter_": Operation(
        "scatter",
        inputs="input_tensors",
        outputs="output_tensors",
        root="root_rank",
        nested_inputs=True,
    ),
    "reduce_scatter_": Operation(
        "reduce_scatter", inputs="input_tensors", outputs="output_tensors", nested_inputs=True
    ),
    "_reduce_scatter_base_": Operation(
        "reduce_scatter_tensor", inputs="input_tensor", outputs="output_tensor"
    ),
    "reduce_scatter_tensor_coalesced_": Operation(
        "reduce_scatter_tensor_coalesced", inputs="inputs", outputs="outputs"
    ),
    "alltoall_base_": Operation(
        "all_to_all_single",
        inputs="input",
        outputs="output",
        input_splits="input_split_sizes",
        output_splits="output_split_sizes",
    ),
    "alltoall_": Operation("all_to_all", inputs="input_tensors", outputs="output_tensors"),
    "barrier": Operation("barrier"),
    "monitored_barrier_": Operation("monitored_barrier", blocks=True),
    "send": Operation("send", inputs="tensors", peer="dst"),
    "recv_": Operation("recv", outputs="tensors", peer="src"),
    "recv_any_source_": Operation("recv", outputs="tensors"),
}


class Reader:
    """Reads the arguments of one operator by their schema names."""

    __slots__ = ("_positions", "name", "operation")

    def __init__(self, name: str, operation: Operation, schema: Any) -> None:
        self.name = name
        self.operation = operation
        self._positions = {a.name: (i, a.default_value) for i, a in enumerate(schema.arguments)}

    def __call__(self, argument: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The argument's value, its default where it was left out, None where unknown."""
        if argument in kwargs:
            return kwargs[argument]
        place = self._positions.get(argument)
        if place is None:
            return None
        position, default = place
        return args[position] if position < len(args) else default

    def replaced(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], by: dict[str, Any]
    ) -> tuple[Any, ...]:
        """All arguments in the order of the schema, some of them others."""
        return tuple(
            by[name] if name in by else self(name, args, kwargs) for name in self._positions
        )

    def knows(self, argument: str) -> bool:
        """Whether this release of torch has the argument."""
        return argument in self._positions
