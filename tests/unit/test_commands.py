"""Commands are found by their folder: a new one is a new file."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from microagg_core.registry import forget
from microagg_flows.command import commands
from microagg_flows.command.cli import build_app

WAVE = """
import typer
from microagg_flows.command.call import QuietOption, command

@command("wave")
def wave(record, times: int = 1, quiet: QuietOption = False) -> None:
    'Say hello.'
    record.progress.say("waving")
    typer.echo("hello " * times)
"""


def test_a_command_is_a_new_file_and_no_line_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wave.py").write_text(WAVE)
    monkeypatch.setattr(commands, "__path__", [*commands.__path__, str(tmp_path)])
    forget()
    try:
        app = build_app()
    finally:
        monkeypatch.undo()
        forget()
    assert "wave        Say hello." in CliRunner().invoke(app, ["--help"]).output
    results = tmp_path / "results.json"
    done = CliRunner().invoke(app, ["wave", "--times", "2", "--quiet", "--results", str(results)])
    assert (done.exit_code, done.output.strip()) == (0, "hello hello")
    assert '"command": "wave"' in results.read_text() and '"outcome": "done"' in results.read_text()
