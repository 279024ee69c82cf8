"""The project as a wheel, installed into an environment of its own whose libraries are taken from this one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PathDistribution, distribution
from pathlib import Path
from zipfile import Path as ZipPath

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
_PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
_OFFLINE = ["--no-deps", "--no-index"]


def build_wheel(folder: Path, kernels: Path | None = None) -> Path:
    """A wheel of the project, with the compiled kernels of a cache where one is given."""
    source, wheels = folder / "source", folder / "wheels"
    for name in ("microagg_core", "flows"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "compiled"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    if kernels is not None:
        shutil.copytree(kernels, source / "microagg_core" / "kernels" / "compiled")
    command = [*_PIP, "wheel", *_OFFLINE, "--no-build-isolation", "--wheel-dir", wheels, source]
    subprocess.run(command, check=True)
    (wheel,) = wheels.glob("*.whl")
    return wheel


def install_wheel(wheel: Path, venv: Path, libraries: Iterable[str | Path]) -> Path:
    """The Python of a new environment that has the wheel, and these folders of libraries."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = venv / "bin" / "python"
    subprocess.run([*_PIP, "--python", python, "install", *_OFFLINE, wheel], check=True)
    (next(venv.glob("lib/*/site-packages")) / "base.pth").write_text("".join(f"{folder}\n" for folder in libraries))
    return python


def our_libraries() -> list[str]:
    """Where the libraries of this environment lie, extras and all."""
    return [path for path in sys.path if path.endswith("site-packages")]


def libraries_of(wheel: Path, folder: Path) -> Path:
    """A folder with the libraries that the wheel asks for when no extra is named, and those that these ask for."""
    (metadata,) = (path for path in ZipPath(wheel).iterdir() if path.name.endswith(".dist-info"))
    asked = PathDistribution(metadata).requires or []
    folder.mkdir()
    for name in _closure(map(Requirement, asked)):
        for file in distribution(name).files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (folder / top).exists():
                (folder / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    return folder


def _closure(asked: Iterable[Requirement]) -> set[str]:
    names: set[str] = set()
    waiting = list(_applying(asked, ""))
    while waiting:
        requirement = waiting.pop()
        if requirement.name not in names:
            names.add(requirement.name)
            extras = requirement.extras or {""}
            further = list(map(Requirement, distribution(requirement.name).requires or ()))
            waiting += [found for extra in extras for found in _applying(further, extra)]
    return names


def _applying(requirements: Iterable[Requirement], extra: str) -> Iterator[Requirement]:
    return (r for r in requirements if r.marker is None or r.marker.evaluate({"extra": extra}))
