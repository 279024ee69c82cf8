"""Add one file to a folder that is a registry, as who contributes a kind or a format does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest

from microagg_core import registry

#: Package, name of the module, its text.
AddModule = Callable[[str, str, str], None]


@pytest.fixture
def add_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AddModule]:
    """Write modules into folders that belong to their packages while the test runs."""
    added: list[tuple[ModuleType, str, str]] = []

    def add(package: str, name: str, text: str) -> None:
        folder: Path = tmp_path_factory.mktemp("added")
        (folder / f"{name}.py").write_text(dedent(text))
        module = import_module(package)
        module.__path__.append(str(folder))
        added.append((module, str(folder), name))
        registry.forget()

    yield add
    for module, folder, name in added:
        module.__path__.remove(folder)
        sys.modules.pop(f"{module.__name__}.{name}", None)
    registry.forget()
