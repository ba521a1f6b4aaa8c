"""Putting the stub in place of megatron.core, and taking it out again."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.mpu import _parallel_state as stub
from harness.mpu import install


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


def _no_megatron(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make sure that none is found, whatever is installed here."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "megatron"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if not (Path(p) / "megatron").exists()])
    importlib.invalidate_caches()


def _a_megatron(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed Megatron that must not be imported by finding out that it is there."""
    _no_megatron(monkeypatch)
    core = directory / "megatron" / "core"
    core.mkdir(parents=True)
    (core / "__init__.py").write_text("raise SystemExit('imported')\n")
    (core / "parallel_state.py").write_text("")
    monkeypatch.syspath_prepend(str(directory))


def test_every_way_to_import_mpu_gives_the_stub(monkeypatch: pytest.MonkeyPatch) -> None:
    """All spellings of the import give one module, and afterwards none works."""
    _no_megatron(monkeypatch)
    with install() as installation:
        from megatron import core
        from megatron.core import mpu, parallel_state
        from megatron.core.parallel_state import get_data_parallel_group

        assert not installation.is_real
        assert mpu is parallel_state is importlib.import_module("megatron.core.mpu") is core.mpu
        assert get_data_parallel_group is stub.get_data_parallel_group
        assert [] == list(core.__path__)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("megatron.core.mpu")


def test_what_was_there_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that was shadowed, and its parts, are the same objects again."""
    _no_megatron(monkeypatch)
    names = ("megatron", "megatron.core", "megatron.core.parallel_state", "megatron.core.utils")
    own = {name: types.ModuleType(name) for name in names}
    for name, module in own.items():
        monkeypatch.setitem(sys.modules, name, module)
    with install(shadow_installed=True) as installation:
        assert not installation.is_real
        assert "megatron.core.utils" not in sys.modules
        assert sys.modules["megatron.core.parallel_state"] is stub
    assert own == {name: sys.modules.get(name) for name in names}
    assert "megatron.core.mpu" not in sys.modules
    assert not hasattr(own["megatron"], "core")


def test_installations_nest(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation within another leaves the outer one in place, and restores only once."""
    _no_megatron(monkeypatch)
    with install():
        outer = sys.modules["megatron.core"]
        inner = install()
        inner.restore()
        inner.restore()
        assert outer is sys.modules["megatron.core"]
        assert sys.modules["megatron.core.mpu"] is stub


def test_an_installed_megatron_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Megatron that can be imported is found without importing it, and not shadowed."""
    _a_megatron(tmp_path, monkeypatch)
    with install() as installation:
        assert installation.is_real
        assert "megatron.core" not in sys.modules


def test_an_installed_megatron_is_shadowed_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With shadow_installed the stub is in place, and nothing of the real core is reachable."""
    _a_megatron(tmp_path, monkeypatch)
    with install(shadow_installed=True) as installation:
        assert not installation.is_real
        assert importlib.import_module("megatron.core.mpu") is stub


def test_a_stub_of_the_users_own_counts_as_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hand-made parallel_state in sys.modules is not replaced behind its author's back."""
    _no_megatron(monkeypatch)
    own = types.ModuleType("megatron.core.parallel_state")
    monkeypatch.setitem(sys.modules, "megatron.core.parallel_state", own)
    with install() as installation:
        assert installation.is_real
        assert own is sys.modules["megatron.core.parallel_state"]


def test_other_parts_of_the_namespace_stay_importable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that shares the namespace megatron, without a core, can still be imported."""
    _no_megatron(monkeypatch)
    (tmp_path / "megatron" / "energon").mkdir(parents=True)
    (tmp_path / "megatron" / "energon" / "__init__.py").write_text("HERE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with install():
        assert 1 == importlib.import_module("megatron.energon").HERE
    sys.modules.pop("megatron.energon")


def test_extra_modules_are_empty_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """They and their parents can be imported, and say what they are when used."""
    _no_megatron(monkeypatch)
    with install(extra_modules=["megatron.training.utils", "flash_attn", "megatron.training"]):
        import flash_attn  # type: ignore[import-not-found] # it need not be installed
        import megatron.training.utils as utils

        assert utils is sys.modules["megatron.training"].utils
        assert not hasattr(flash_attn, "flash_attn_func")
        with pytest.raises(AttributeError) as refused:
            _ = flash_attn.flash_attn_func
        assert (
            "no flash_attn_func in flash_attn: flash_attn is an empty stand-in of "
            "pytest-collectives, from world_stub_modules; do not use it in this test, or install "
            "the real one and take it off that list"
        ) == str(refused.value)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("from flash_attn import f", "cannot import flash_attn.f: flash_attn is an empty stand-in"),
        ("import flash_attn.layers", "cannot import flash_attn.layers: flash_attn is an empty"),
        (
            "from megatron.core import tensor_parallel",
            "cannot import megatron.core.tensor_parallel: this is the stub of pytest-collectives, "
            "which has megatron.core.mpu (also called parallel_state) only; add "
            "megatron.core.tensor_parallel to world_stub_modules",
        ),
    ],
)
def test_importing_what_a_package_of_ours_lacks_says_why(
    monkeypatch: pytest.MonkeyPatch, statement: str, message: str
) -> None:
    """An import that fails because of a stand-in names it, and is an ImportError."""
    _no_megatron(monkeypatch)
    with install(extra_modules=["flash_attn"]):
        with pytest.raises(ImportError) as refused:
            exec(statement, {})
        assert str(refused.value).startswith(message)


def test_an_extra_module_may_have_an_installed_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The installed parent stays what it is, and loses the attribute again."""
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "__init__.py").write_text("HERE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with install(extra_modules=["half.missing"]):
        half = importlib.import_module("half")
        assert (1, sys.modules["half.missing"]) == (half.HERE, half.missing)
    assert not hasattr(half, "missing")
    sys.modules.pop("half")


@pytest.mark.parametrize("names", [["flash-attn"], [""], [3], ["a..b"]])
def test_wrong_module_names_are_refused(names: list[Any]) -> None:
    """A name that no module can have is refused with the option's name."""
    with pytest.raises(ValueError, match=r"world_stub_modules holds .* which is no module name"):
        install(extra_modules=names)


def test_a_string_of_module_names_is_refused() -> None:
    """One string is no list of names."""
    with pytest.raises(TypeError, match="must be a list of module names, got 'flash_attn'"):
        install(extra_modules="flash_attn")
