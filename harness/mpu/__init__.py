"""The stand-in of `megatron.core.mpu`: Megatron's functions, over real gloo groups of one world.

The launcher calls `activate` in each rank and `install` before user code is imported; from then on
`from megatron.core import mpu` gives the functions of `_parallel_state`. Importing this package
imports no torch.
"""

from harness.mpu._install import Installation, install
from harness.mpu._state import TWIN_SUFFIXES, MakeGroup, activate, deactivate, live_group, reset

__all__ = [
    "TWIN_SUFFIXES",
    "Installation",
    "MakeGroup",
    "activate",
    "deactivate",
    "install",
    "live_group",
    "reset",
]
