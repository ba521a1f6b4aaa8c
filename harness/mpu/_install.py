"""Put the stub of Megatron into `sys.modules`, and put back what was there before.

A module that is named in `world_stub_modules` is provided as an empty package: importing it works,
using anything of it says what it is.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType, TracebackType
from typing import NoReturn

_MPU_NAMES = ("megatron.core.parallel_state", "megatron.core.mpu")


class Installation:
    """What `install` changed, and how to undo it. As a context manager it undoes it at the end.

    `is_real` says that an installed Megatron was found and left alone; its
    `initialize_model_parallel` then has to be called, and the stub is not in use.
    """

    def __init__(self, *, is_real: bool) -> None:
        self.is_real = is_real
        self._modules: dict[str, ModuleType | None] = {}
        self._attributes: list[tuple[ModuleType, str, object]] = []
        self._finder: _EmptyPackageFinder | None = None

    def restore(self) -> None:
        """Put back what was in `sys.modules` before; a second call does nothing."""
        for module, name, before in reversed(self._attributes):
            if before is _ABSENT:
                module.__dict__.pop(name, None)
            else:
                setattr(module, name, before)
        for name, was in self._modules.items():
            if was is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = was
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        self._attributes.clear()
        self._modules.clear()

    def __enter__(self) -> Installation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.restore()

    def _hide(self, name: str) -> None:
        """Take a module out of `sys.modules`, to be put back by `restore`."""
        self._modules.setdefault(name, sys.modules.pop(name, None))

    def _put(self, name: str, module: ModuleType) -> None:
        """Put a module into `sys.modules` and make it an attribute of its parent."""
        self._modules.setdefault(name, sys.modules.get(name))
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            self._set(sys.modules[parent], child, module)

    def _set(self, module: ModuleType, name: str, value: object) -> None:
        # Not getattr: an empty package answers that with an error.
        self._attributes.append((module, name, module.__dict__.get(name, _ABSENT)))
        setattr(module, name, value)

    def _install_finder(self) -> None:
        self._finder = _EmptyPackageFinder()
        # Last, so that what can be imported is.
        sys.meta_path.append(self._finder)


_ABSENT = object()


def install(*, shadow_installed: bool = False, extra_modules: Iterable[str] = ()) -> Installation:
    """Provide the stub as `megatron.core.mpu` and `extra_modules` as empty packages.

    A Megatron that is installed, or that user code has put into `sys.modules`, stays unless
    `shadow_installed`; finding out imports nothing. `extra_modules` replace installed modules of
    that name, since they were asked for, except parts of a Megatron that stays. What is imported in
    the meantime is not undone by `restore`. Several installations are restored last first.
    """
    extra = _checked_names(extra_modules)
    is_real = not shadow_installed and _is_another(_MPU_NAMES[0]) and _can_import(_MPU_NAMES[0])
    installation = Installation(is_real=is_real)
    try:
        if not is_real:
            _put_megatron(installation)
        for name in extra:
            _put_extra(installation, name)
        installation._install_finder()
    except BaseException:
        installation.restore()
        raise
    return installation


def _put_megatron(installation: Installation) -> None:
    from harness.mpu import _parallel_state

    # The real namespace package stays open for what shares it, such as megatron.energon, but
    # nothing of the real megatron.core must mix with the stub.
    found = _find("megatron")
    path = list(found.submodule_search_locations or ()) if found else []
    for name in [name for name in sys.modules if name.startswith("megatron.core.")]:
        installation._hide(name)
    installation._put("megatron", _StubPackage("megatron", path))
    installation._put("megatron.core", _StubPackage("megatron.core", []))
    for name in _MPU_NAMES:
        installation._put(name, _parallel_state)


def _put_extra(installation: Installation, name: str) -> None:
    # Provided already, perhaps as the parent of a name that came earlier.
    if isinstance(sys.modules.get(name), _Package) or not _is_another(name):
        return
    if installation.is_real and name.startswith("megatron.") and _can_import(name):
        return
    parent = name.rpartition(".")[0]
    if parent and parent not in sys.modules:
        if _can_import(parent):
            # `import a.b` imports a as well, so this costs nothing that was not asked for.
            importlib.import_module(parent)
        else:
            _put_extra(installation, parent)
    installation._put(name, _EmptyPackage(name))


class _Package(ModuleType):
    def __init__(self, name: str, path: list[str]) -> None:
        super().__init__(name, type(self).__doc__)
        self.__path__ = path
        # Code that looks for optional dependencies asks find_spec, which reads this.
        self.__spec__ = ModuleSpec(name, loader=None, is_package=True)
        self.__spec__.submodule_search_locations = path

    def _advice(self, name: str) -> str:
        raise NotImplementedError

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        raise AttributeError(f"no {name} in {self.__name__}: {self._advice(name)}", name=name)


class _EmptyPackage(_Package):
    """An empty stand-in of pytest-collectives for a module named in world_stub_modules."""

    def __init__(self, name: str) -> None:
        super().__init__(name, [])

    def _advice(self, name: str) -> str:
        return (
            f"{self.__name__} is an empty stand-in of pytest-collectives, from world_stub_modules; "
            f"do not use it in this test, or install the real one and take it off that list"
        )


class _StubPackage(_Package):
    """The package that holds pytest-collectives' stub of megatron.core.mpu."""

    def _advice(self, name: str) -> str:
        return (
            "this is the stub of pytest-collectives, which has megatron.core.mpu (also called "
            f"parallel_state) only; add {self.__name__}.{name} to world_stub_modules if the test "
            "needs to import but not to use it, or install Megatron"
        )


class _EmptyPackageFinder:
    """Says why a submodule of a package of ours is not there.

    `from flash_attn import x` asks for the attribute, then for the submodule; whatever the first
    error said, Python would report only "cannot import name".
    """

    def find_spec(
        self, name: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        parent, _, child = name.rpartition(".")
        package = sys.modules.get(parent)
        if isinstance(package, _Package):
            raise ModuleNotFoundError(
                f"cannot import {name}: {package._advice(child)}",
                # Not the submodule's name: that error Python would replace by its own.
                name=parent,
            )
        return None


def _checked_names(names: Iterable[str]) -> list[str]:
    if isinstance(names, str):
        raise TypeError(f"world_stub_modules must be a list of module names, got {names!r}")
    checked = []
    # From an ini file or a conftest.py, so anything can be in it.
    given: Iterable[object] = names
    for name in given:
        if not isinstance(name, str) or not all(map(str.isidentifier, name.split("."))):
            raise ValueError(
                f"world_stub_modules holds {name!r}, which is no module name; "
                'write names such as "flash_attn" or "megatron.training.utils"'
            )
        checked.append(name)
    return checked


def _is_another(name: str) -> bool:
    """Whether importing `name` would give something that is not this stub."""
    module = sys.modules.get(name)
    return module is None or module.__name__ != "harness.mpu._parallel_state"


def _can_import(name: str) -> bool:
    return sys.modules.get(name) is not None or _find(name) is not None


def _find(name: str) -> ModuleSpec | None:
    """`importlib.util.find_spec` that does not import the parents."""
    path: list[str] | None = None
    spec: ModuleSpec | None = None
    for qualified in _prefixes(name):
        module = sys.modules.get(qualified)
        if module is not None and not isinstance(module, _Package):
            spec = module.__dict__.get("__spec__") or ModuleSpec(qualified, None)
            path = list(getattr(module, "__path__", ()))
            continue
        spec = _ask_finders(qualified, path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or ())
    return spec


def _prefixes(name: str) -> Iterator[str]:
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        yield ".".join(parts[:end])


def _ask_finders(name: str, path: list[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        if isinstance(finder, _EmptyPackageFinder) or not hasattr(finder, "find_spec"):
            continue
        spec = finder.find_spec(name, path)
        if spec is not None:
            return spec
    return None
