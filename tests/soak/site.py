"""Where a case takes place: a folder with input, spec, output, work area, home and temporary folder of its own."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from soak.command import Command, start
from soak.data import Configuration
from soak.places import Folder, Place
from soak.processes import MARK

#: What of this machine's user a case may see.
_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")
#: Enough for warm kernels on any stage, and so little that all of it together fits a small machine.
WORKER_MEMORY = "1GiB"


def local_cluster(memory: str = WORKER_MEMORY, workers: int = 2) -> dict[str, Any]:
    """The spec's cluster of this machine."""
    return {"local": {"workers": workers, "threads": 1, "memory": memory}}


@dataclass
class Site:
    """A folder for one case."""

    folder: Path
    configuration: Configuration
    kernels: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    spec: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    output: Place = field(init=False)
    work: Place = field(init=False)
    _commands: int = 0

    def __post_init__(self) -> None:
        self.output, self.work = Folder(self.folder / "release"), Folder(self.folder / "work")
        for name in ("home", "tmp", "prefect"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        cluster = {} if self.configuration.leaves_cluster_open else {"cluster": local_cluster()}
        self.spec = {**self.configuration.spec(), **cluster, **self.spec}
        self.write_spec()

    def write_spec(self, name: str = "release.yaml", **changes: Any) -> str:
        """Write the spec, or another one with changes; returns its name."""
        text = yaml.safe_dump({**self.spec, **changes}, sort_keys=False)
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def take_input(self, source: Path) -> None:
        """Copy the input, its times included: what a run finds unchanged must look unchanged."""
        shutil.copytree(source, self.folder / "input", dirs_exist_ok=True)

    def take_prefect_home(self, source: Path) -> None:
        """Copy a Prefect home whose database is made already."""
        shutil.copytree(source, self.folder / "prefect", dirs_exist_ok=True)

    @property
    def temporary(self) -> Path:
        """The commands' TMPDIR."""
        return self.folder / "tmp"

    def environment(self) -> dict[str, str]:
        """What the commands see."""
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return {
            **kept,
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.temporary),
            "PREFECT_HOME": str(self.folder / "prefect"),
            "PREFECT_LOGGING_LEVEL": "DEBUG",
            "NUMBA_CACHE_DIR": str(self.kernels),
            "MICROAGG_CACHE_DIR": str(self.kernels),
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_COLOR": "1",
            MARK: self.mark,
            **self.settings,
        }

    def start(
        self,
        *arguments: str,
        settings: Mapping[str, str | None] | None = None,
        wrapped_in: tuple[str, ...] = (),
    ) -> Command:
        """Start the command here; settings of None are taken from its environment."""
        environment: dict[str, str | None] = {**self.environment(), **(settings or {})}
        given = {name: value for name, value in environment.items() if value is not None}
        self._commands += 1
        return start(arguments, self.folder, given, self.mark, self._commands, wrapped_in)
