"""What an older torch does not tell to kernels is known all the same: reduce op (2.8), async_op (2.6)."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

PROGRAM = """
import torch, torch.distributed as dist
from torch.distributed import _functional_collectives as functional

from harness.record import _operations, _reduce_ops
from harness.record._recorder import Recorder
from harness.record._wire import Channel

# As an older torch is.
_reduce_ops.told = lambda: False
_operations.Reader.knows = lambda self, name: name in self._positions and name != "async_op"
method = dist.ProcessGroup.allreduce
recorder = Recorder(Channel())
recorder.install()
recorder.directly = False
seen = []
recorder.called = lambda frame, stream, ranks, where, what: (
    seen.append((what[0], what[1], what[9])) or (0, "")
)

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
group, x, y = dist.group.WORLD, torch.ones(2), torch.ones(2)
dist.all_reduce(x)
dist.all_reduce(x, op=dist.ReduceOp.MAX, async_op=True).wait()
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


def test_it_is_what_was_asked_for() -> None:
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
    seen = ast.literal_eval(done.stdout.splitlines()[-1])  # gloo of torch 2.8 prints, too
    begin = seen.index("backward")
    assert [
        ("all_reduce", "SUM", False),
        ("all_reduce", "MAX", True),
        ("reduce", "MIN", False),
        ("reduce_scatter_tensor", "AVG", False),
        ("all_reduce_coalesced", "PRODUCT", False),
        # Of others than the functions of torch.distributed, nobody knows who will wait.
        ("all_reduce", "MAX", None),
        ("all_reduce", "MIN", None),
        ("all_reduce", "SUM", None),
        ("all_reduce", "MAX", None),
        ("reduce_scatter_tensor_coalesced", "AVG", None),
    ] == seen[:10]
    assert {("all_reduce", "SUM", None)} == {call for call in seen[begin + 1 :] if call[1]}
