"""The wheel alone, without extras: Python functions and small releases work, and what is missing is one sentence."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from inputs.people import people
from releasing.runs import data_digests, run_stages, start, write_release
from wheels import build_wheel, install_wheel, libraries_of, our_libraries

Run = Callable[..., "subprocess.CompletedProcess[str]"]

FUNCTIONS = """
import importlib.util
for name in ("dask", "distributed", "cloudpickle", "cryptography", "prefect", "fastapi", "httpx", "s3fs"):
    assert importlib.util.find_spec(name) is None, name
import numpy as np
import pandas as pd
import microagg_core
X = np.random.default_rng(7).normal(size=(60, 2))
labels = microagg_core.partition(X, k=3)
assert np.bincount(labels).min() >= 3
frame = pd.DataFrame(X, columns=["a", "b"])
assert microagg_core.microaggregate(frame, ["a", "b"], k=3).data.groupby(["a", "b"]).size().min() >= 3
assert microagg_core.lower_bound(X, k=3).sse >= 0
assert microagg_core.__file__.startswith(__import__("sys").prefix)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    return install_wheel(wheel, folder / "venv", [libraries_of(wheel, folder / "libraries")]).parent


@pytest.fixture(scope="module")
def everything(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_wheel(wheel, tmp_path_factory.mktemp("everything") / "venv", our_libraries()).parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder, in which other things are called as our packages are, or were."""
    for name in ("flows", "flows/microagg_flows", "steps", "command"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('a folder of the user was imported')")
    return tmp_path


def called(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """A command that is run in a folder, and finds no package but those that are installed beside it."""
    elsewhere = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, cwd=folder, env=elsewhere, capture_output=True, text=True, timeout=280)


def refused(folder: Path, *command: str | Path) -> str:
    ended = called(folder, *command)
    assert ended.returncode == 2, ended.stderr
    (line,) = ended.stderr.splitlines()
    assert line.startswith("microagg: ") and ended.stdout == ""
    return line


def test_the_python_functions_need_no_extra(alone: Path, folder: Path) -> None:
    ended = called(folder, alone / "python", "-c", FUNCTIONS)
    assert ended.returncode == 0, ended.stderr


def test_a_small_release_needs_no_extra(alone: Path, folder: Path) -> None:
    path = write_release(folder, [people(500)], id="one")
    ended = called(folder, alone / "microagg", "run", "release.yaml", "--json", "-q")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["records"] == 500
    assert called(folder, alone / "microagg", "verify", "output").returncode == 0
    released = data_digests(folder / "output")
    (folder / "again").mkdir()
    run_stages(start(write_release(folder / "again", [people(500)], id="one")))
    assert released == data_digests(folder / "again" / "output") and path.exists()


def test_a_missing_extra_is_a_sentence_with_the_command(alone: Path, folder: Path) -> None:
    path = write_release(folder, [people(50)], cluster="local")
    microagg = alone / "microagg"
    direct = refused(folder, microagg, "run", "release.yaml", "--direct", "-q")
    assert "(without one: cluster: none)" in direct and direct.endswith("pip install 'microagg[cluster]'")
    assert refused(folder, microagg, "run", "release.yaml", "-q").endswith("pip install 'microagg[prefect]'")
    keys = refused(folder, microagg, "keys", "release")
    assert keys == "microagg: a signature needs packages that are not installed; run: pip install 'microagg[sign]'"
    spec = {**yaml.safe_load(path.read_text()), "cluster": None, "input": {"url": "s3://bucket/people.parquet"}}
    path.write_text(yaml.safe_dump(spec))
    assert refused(folder, microagg, "plan", "release.yaml", "-q").endswith("run: pip install 'microagg[s3]'")


@pytest.mark.soak("installs everything, and starts a server and workers")
@pytest.mark.server
def test_folders_called_as_packages_are_harm_no_release(everything: Path, folder: Path) -> None:
    """Through Prefect, whose server is a process that is started here, and with workers, which are others."""
    write_release(folder, [people(500)], id="one", cluster={"local": {"workers": 1, "memory": "1GiB"}})
    ended = called(folder, everything / "microagg", "run", "release.yaml", "--json", "-q")
    assert (ended.returncode, ended.stderr) == (0, "")
    told = "import json; from microagg_core.software import software; print(json.dumps(software()))"
    here, elsewhere = (called(place, everything / "python", "-c", told) for place in (folder, folder / "steps"))
    assert here.stdout == elsewhere.stdout != ""
