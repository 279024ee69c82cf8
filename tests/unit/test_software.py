"""What names the software that makes a release."""

from __future__ import annotations

import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

import microagg_core
from microagg_core.registry import plug_in_versions
from microagg_core.software import digest_of, software

CORE = Path(microagg_core.__file__).parent


def copied(folder: Path) -> Path:
    shutil.copytree(CORE, folder / "microagg_core", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "microagg_core"


def test_it_names_the_versions_that_are_installed() -> None:
    found = software()
    assert {name: found[name] for name in ("numpy", "pyarrow", "microagg")} == {
        name: version(name) for name in ("numpy", "pyarrow", "microagg")
    }
    found["numpy"] = "changed by a caller"
    assert software()["numpy"] == version("numpy")


def test_it_names_the_packages_that_add_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "microagg_lines-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: microagg-lines\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[microagg.formats.inputs]\nlines = microagg_lines\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert plug_in_versions() == {"microagg-lines": "1.2"}


def test_the_same_sources_have_the_same_digest_wherever_they_lie(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "another place").mkdir()
    one, two = copied(tmp_path / "one"), copied(tmp_path / "another place")
    (two / "__pycache__").mkdir()
    (two / "__pycache__" / "api.cpython-311.pyc").write_bytes(b"left by running it")
    assert digest_of([one]) == digest_of([two]) == digest_of([CORE])


def test_any_change_of_a_source_changes_the_digest(tmp_path: Path) -> None:
    before = digest_of([folder := copied(tmp_path)])
    kernel = folder / "kernels" / "tree" / "mdav.py"
    text = kernel.read_bytes()
    kernel.write_bytes(text + b"\n")
    changed = digest_of([folder])
    kernel.write_bytes(text)
    kernel.rename(folder / "kernels" / "tree" / "mdav2.py")
    moved = digest_of([folder])
    assert len({before, changed, moved}) == 3
    (folder / "kernels" / "tree" / "mdav2.py").rename(kernel)
    assert digest_of([folder]) == before
