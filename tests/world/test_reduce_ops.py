"""The reduce op of a call is known where torch does not tell it to kernels, as 2.6 and 2.8 do not."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import torch, torch.distributed as dist
from torch.distributed import _functional_collectives as functional

from harness.record import _reduce_ops
from harness.record._recorder import Recorder
from harness.record._wire import Channel

_reduce_ops.told = lambda: False  # as an older torch is
method = dist.ProcessGroup.allreduce
recorder = Recorder(Channel())
recorder.install()
recorder.directly = False
seen = []
recorder.called = lambda frame, stream, ranks, where, what: seen.append(what[:2]) or (0, "")

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
group, x, y = dist.group.WORLD, torch.ones(2), torch.ones(2)
dist.all_reduce(x)
dist.all_reduce(x, op=dist.ReduceOp.MAX)
dist.reduce(x, dst=0, op=dist.ReduceOp.MIN)
dist.reduce_scatter_tensor(y, x, op=dist.ReduceOp.AVG)
dist.all_reduce_coalesced([x, y], op=dist.ReduceOp.PRODUCT)
group.allreduce(x, op=dist.ReduceOp.MAX).wait()
group.allreduce([x], dist.ReduceOp.MIN).wait()
group.allreduce([x]).wait()
functional.all_reduce(x, "max", group).sum()
functional.reduce_scatter_tensor(x, "avg", 0, group).sum()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
seen.append("backward")
model(x).sum().backward()
recorder.uninstall()
assert dist.ProcessGroup.allreduce is method
print(seen)
"""


def test_the_op_is_what_was_asked_for() -> None:
    """By functions, by methods with options or an op, by functional collectives, by DDP itself."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    seen = eval(done.stdout.splitlines()[-1])  # gloo of torch 2.8 prints, too
    begin = seen.index("backward")
    assert [
        ("all_reduce", "SUM"),
        ("all_reduce", "MAX"),
        ("reduce", "MIN"),
        ("reduce_scatter_tensor", "AVG"),
        ("all_reduce_coalesced", "PRODUCT"),
        ("all_reduce", "MAX"),
        ("all_reduce", "MIN"),
        ("all_reduce", "SUM"),
        ("all_reduce", "MAX"),
        ("reduce_scatter_tensor_coalesced", "AVG"),
    ] == seen[:10]
    assert {("all_reduce", "SUM")} == {call for call in seen[begin + 1 :] if call[1]}
