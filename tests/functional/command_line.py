"""The product as its user meets it: a folder with data and a spec, and the command ``microagg``."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet
import pytest
import yaml

from servers.command_server import command_server

COMMAND = str(Path(sys.executable).with_name("microagg"))
#: No record is ever described by these words: they are what libraries and Python print when they are in trouble.
NOISE = (
    "Traceback", "distributed.", "tornado", "asyncio", "prefect.", "During handling", "Warning", "resource_tracker",
    "pyarrow", "ArrowInvalid", "Exception", "Task exception", "nanny", "Nanny",
)  # fmt: skip
#: For tests that release the same units more than once and are about something else than what that gives away.
AGAIN = {"series": {"mode": "independent", "acknowledge": "overlapping_releases"}}


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    def document(self) -> dict[str, Any]:
        """Standard output as the one JSON document that it must be."""
        return dict(json.loads(self.out))

    def sentences(self) -> list[str]:
        """What the command says went wrong, line by line."""
        return [line.removeprefix("microagg: ") for line in self.err.splitlines() if line.startswith("microagg: ")]

    def assert_refused(self, code: int, *words: str) -> None:
        """One clear sentence (or one for each thing that is wrong), the exit code, and nothing else."""
        assert self.code == code, self.err
        said = self.sentences()
        assert said, self.err
        assert "microagg: " in self.err.splitlines()[-1]
        for word in words:
            assert any(word in sentence for sentence in said), f"{word!r} is not in {said}"
        for word in NOISE:
            assert word not in self.err, f"{word!r} is in {self.err}"
        assert "a bug" not in self.err
        assert "Traceback" not in self.out


def run_command(*arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Ended:
    """Run the real command in a process of its own."""
    environment = {**os.environ, **(env or {})}
    if command_server().can_run(environment):
        return Ended(*command_server().run(arguments, cwd or Path.cwd(), environment))
    done = subprocess.run(
        [COMMAND, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def start_command(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, program: Sequence[str] = (COMMAND,)
) -> subprocess.Popen[str]:
    """The real command, left running in a process group of its own, as a shell would start it."""
    return subprocess.Popen(
        [*program, *arguments],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A background process of a non-interactive shell would otherwise inherit that SIGINT is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )


def leave(process: subprocess.Popen[str]) -> Ended:
    """Wait for the end of a command that was started."""
    try:
        out, err = process.communicate(timeout=200)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return Ended(process.returncode, out, err)


def call_command(*arguments: str, cwd: Path) -> Ended:
    """The command's entry point in this process, where starting Python for every case would take too long."""
    from microagg_flows.command.cli import main

    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        mock.patch.dict(os.environ),
        contextlib.chdir(cwd),
        mock.patch.object(sys, "argv", ["microagg", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Ended(code, out.getvalue(), err.getvalue())


@dataclass
class Project:
    """A folder as a user has it: input files, a spec, the output and the work area."""

    folder: Path
    cluster: Any = "local"
    spec: dict[str, Any] = field(default_factory=dict)

    @property
    def output(self) -> Path:
        return self.folder / "release"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def write(self, table: pa.Table, name: str = "people.parquet", **options: Any) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pa.parquet.write_table(table, path, **options)
        return path

    def write_spec(self, roles: Mapping[str, list[str]], **others: Any) -> Path:
        """Write a spec: short defaults, and whatever the test says. A value of None leaves a key out."""
        spec: dict[str, Any] = {
            "name": "people",
            "id": "one",
            "k": 3,
            "input": {"url": "people.parquet"},
            "output": {"url": "release"},
            "work": {"url": "work"},
            "roles": dict(roles),
            "cluster": self.cluster,
            **others,
        }
        self.spec = {key: value for key, value in spec.items() if value is not None}
        path = self.folder / "release.yaml"
        path.write_text(yaml.safe_dump(self.spec, allow_unicode=True, sort_keys=False), encoding="utf-8")
        return path

    def call(self, *arguments: str) -> Ended:
        return call_command(*arguments, cwd=self.folder)

    def command(self, *arguments: str, env: Mapping[str, str] | None = None) -> Ended:
        return run_command(*arguments, cwd=self.folder, env=env)

    def release(self, *arguments: str) -> dict[str, Any]:
        """Make a release in this process; it has to succeed."""
        ended = self.call("run", "release.yaml", "--direct", "--json", "--quiet", *arguments)
        assert ended.code == 0, ended.err
        assert ended.err == ""
        return ended.document()

    def manifest(self) -> dict[str, Any]:
        latest = json.loads((self.output / "latest.json").read_text())
        return dict(json.loads((self.output / latest["manifest"]).read_text()))

    def parts(self) -> list[Path]:
        manifest = self.manifest()
        return [self.output / manifest["id"] / manifest["revision"] / part["name"] for part in manifest["parts"]]

    def released(self) -> pa.Table:
        return pa.concat_tables([pa.parquet.read_table(path) for path in self.parts()])

    def data_checksums(self) -> list[str]:
        return [part["sha256"] for part in self.manifest()["parts"]]

    def assert_nothing_published(self) -> None:
        left = [path for path in self.output.rglob("*") if path.is_file()] if self.output.exists() else []
        assert left == []


def after_stage(monkeypatch: pytest.MonkeyPatch, stage: str, what: Callable[[Any], object]) -> None:
    """Have something happen to the files between two stages of a run in this process; its workers know nothing."""
    from microagg_flows import stages

    def then(wanted: stages.Stage, release: stages.Release) -> Any:
        outcome = run(wanted, release)
        if wanted.name == stage:
            what(release)
        return outcome

    run = stages.run_stage
    monkeypatch.setattr(stages, "run_stage", then)
