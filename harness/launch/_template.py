"""What all ranks have in common, set up once: in the server, before it forks them.

A rank inherits the hooks of the recorder and the stub of Megatron ready-made, so that what it does
after the fork is what differs from rank to rank.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import torch
import torch.distributed.nn

from harness import mpu
from harness.launch._spec import WorldSpec
from harness.launch._surroundings import Surroundings
from harness.record import _values
from harness.record._recorder import Recorder, Unsupported
from harness.record._wire import Channel


class Template:
    """The recorder and the stub as a rank finds them after the fork.

    ``unrecorded`` says why collectives are not recorded, where torch lacks what that needs.
    """

    def __init__(self) -> None:
        self.recorder = Recorder(Channel())
        self.values = _values
        self.surroundings = Surroundings
        self.unrecorded = ""
        self.seed = _seed_function()
        self.seed(0)  # what it loads on its first call, no rank needs to load again
        try:
            self.recorder.install()
        except Unsupported as error:
            self.unrecorded = f"collectives are not recorded: {error}"
        self._installation: mpu.Installation | None = None
        self._installed_for: object = None

    def suits(self, spec: WorldSpec) -> bool:
        """Whether a process in this folder finds the modules that a rank of the world would."""
        return all(map(os.path.isabs, spec.path)) or os.getcwd() == spec.cwd

    def install_mpu(self, spec: WorldSpec) -> mpu.Installation:
        """Take on the module path of a world, and provide the stub as it asks for it."""
        wanted = spec.path, spec.stub_modules, spec.shadow_megatron
        if self._installation is None or self._installed_for != wanted:
            if self._installation is not None:
                self._installation.restore()
                self._installation = None
            sys.path[:] = spec.path
            self._installation = mpu.install(
                shadow_installed=spec.shadow_megatron, extra_modules=spec.stub_modules
            )
            self._installed_for = wanted
        return self._installation


def _seed_function() -> Callable[[int], object]:
    """`torch.manual_seed`, without a look at accelerators that this torch was built without."""
    built = torch.version.cuda, torch.version.hip, getattr(torch.version, "xpu", None)
    if any(built) or torch.backends.mps.is_built():
        return torch.manual_seed
    return torch.default_generator.manual_seed
