"""The environment of ranks, and the places where no rank can be started."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from harness import _settings
from harness.launch._rank import CURRENT_TEST

INSIDE = "PYTEST_COLLECTIVES_RANK"
"""Set in the environment of every rank, so that a rank (or its child) starts no world."""

_SCRUBBED = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)
_SCRUBBED_PREFIXES = ("TORCHELASTIC_", "ROLE_", "GLOO_", "TORCH_DISTRIBUTED_")


def of_ranks(
    settings: _settings.Settings, own: Mapping[str, str | None], threads: int, compiles: bool
) -> dict[str, str]:
    """The whole environment of a rank: this process' own, with what ``own`` changes at last."""
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in (*_SCRUBBED, CURRENT_TEST) and not name.startswith(_SCRUBBED_PREFIXES)
    }
    env.update(
        GLOO_SOCKET_IFNAME="lo0" if sys.platform == "darwin" else "lo",
        OMP_NUM_THREADS=str(threads),
        MKL_NUM_THREADS=str(threads),
    )
    if not compiles:
        env["TORCHDYNAMO_DISABLE"] = "1"
    for name, value in {**settings.env, **own}.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    env[INSIDE] = "1"
    return env


def refuse_where_ranks_cannot_start() -> None:
    """Raise RuntimeError inside a rank, under torchrun, and on systems that lack what it takes."""
    if INSIDE in os.environ:
        raise RuntimeError(
            "a world cannot be started inside a rank of a world: start it from the test, and use "
            "the process groups of the rank (rank.group('dp'), mpu.get_data_parallel_group())"
        )
    if "TORCHELASTIC_RUN_ID" in os.environ:
        raise RuntimeError(
            "this process was started by torchrun, and a world starts ranks of its own: run "
            "pytest directly, without torchrun (or unset TORCHELASTIC_RUN_ID if it is a leftover)"
        )
    if sys.platform not in ("linux", "darwin"):
        raise RuntimeError(
            f"worlds need os.fork and descriptors that cross sockets, which {sys.platform} lacks: "
            "run these tests on Linux or macOS"
        )
