"""`ProcessGroup.allreduce` as Python calls it: the same record as by a kernel, at a third of the cost.

The kernel's way costs 10 µs for the crossing from C++ to Python and back alone. Here the real method
is called with that way shut. It only issues the call there; a method that makes tensors as well
could not do so, for they are made that way too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _distributed_c10d as c10d

from harness.record._reduce_ops import REDUCE_OPS

if TYPE_CHECKING:
    from harness.record._recorder import Recorder


def recorded_all_reduce(recorder: Recorder) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A wrapper for the method; what it does not know goes on to the kernel."""

    def around(real: Callable[..., Any]) -> Callable[..., Any]:
        local, threads, groups = recorder.local, recorder.threads, recorder.groups
        modes = torch._C._len_torch_dispatch_stack
        options_kind, plain = c10d.AllreduceOptions, torch.Tensor

        def allreduce(group: Any, *args: Any, **kwargs: Any) -> Any:
            if len(args) != 2 or kwargs or local.inside or not recorder.directly or modes():
                return real(group, *args, **kwargs)
            tensors, options = args
            if type(options) is not options_kind or len(tensors) != 1:
                return real(group, *args)
            tensor = tensors[0]
            if type(tensor) is not plain or not tensor.is_cpu or tensor.is_sparse:
                return real(group, *args)
            local.inside = True
            thread, number = threads.number(), -1
            asynchronous = options.asyncOp
            shut = local.shut
            try:
                key, ranks = groups.known(group)
                reduce_op = REDUCE_OPS.get(hash(options.reduceOp))
                given = (recorder.tensors.one(tensor),)
                what = ("all_reduce", reduce_op, None, None, None, given, (), None, None)
                number, held = recorder.called(
                    sys._getframe(1), key, ranks, (thread, key), (*what, asynchronous)
                )
                shut.__enter__()
                try:
                    work = real(group, tensors, options)
                finally:
                    shut.__exit__(None, None, None)
            except BaseException as error:
                if number >= 0:
                    recorder.failed(number, thread, error)
                raise
            finally:
                local.inside = False
            if asynchronous:
                recorder.handed_out(work, number, held, [], [tensor], "all_reduce")
            else:
                local.work, local.number = work, number
            return work

        return allreduce

    return around
