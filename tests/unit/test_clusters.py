"""Kinds of clusters: each that a spec can name is one here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from microagg_core.errors import DataError, SpecError
from microagg_core.spec import clusters
from microagg_core.spec.clusters import KINDS, Cluster, ClusterKind, NoCluster
from microagg_core.spec.json_schema import spec_schema
from microagg_flows import executors
from microagg_flows.clusters import hired_workers
from microagg_flows.executors import InThreads
from microagg_flows.progress import Silence


def test_every_cluster_of_a_spec_has_a_kind_that_has_workers() -> None:
    assert {kind.model for kind in KINDS.values()} == set(get_args(Cluster))
    assert all(callable(import_module(f"microagg_flows.clusters.{name}").hired) for name in KINDS)


def test_as_many_tasks_are_done_at_a_time_as_there_are_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "usable_cores", lambda: 2)
    both, done = threading.Barrier(2), list[int]()

    def task(number: int) -> int:
        both.wait(30)
        if number == 3:
            raise DataError("the third")
        done.append(number)
        return number * number

    assert InThreads(Silence()).map(task, [4, 1], "tasks") == [16, 1]
    with pytest.raises(DataError, match="the third"):
        InThreads(Silence()).map(task, [3, 5, *range(6, 10)], "tasks")
    assert len(done) < 8, "what has not begun is not done"


def test_every_cluster_of_a_spec_is_told_by_its_first_key_and_is_in_the_json_schema() -> None:
    models = [kind.model for kind in KINDS.values()]
    first = [next(iter(model.model_fields)) for model in models]
    others = [[*model.model_fields][1:] for model in models]
    assert len(set(first)) == len(first) and not set(first) & {key for keys in others for key in keys}
    schema = spec_schema()
    assert {model.__name__ for model in models} <= set(schema["$defs"])
    refs = [form["$ref"] for form in schema["properties"]["cluster"]["anyOf"] if "$ref" in form]
    assert len(refs) == len(models) - 1, "none has no keys"


def test_only_kinds_that_use_dask_load_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """And where it is missing, one sentence says what to install."""
    for name in [name for name in sys.modules if name.startswith("microagg_flows.clusters.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dask", None)
    monkeypatch.setitem(sys.modules, "distributed", None)
    for kind in KINDS.values():
        cluster = kind.model.model_construct()
        if kind.extra:
            words = rf"{kind.what} .* needs .*; run: pip install 'microagg\[{kind.extra}\]'"
            with pytest.raises(SpecError, match=words):
                hired_workers(cluster, Silence())  # type: ignore[arg-type]
        else:
            assert kind.model is NoCluster
            with hired_workers(NoCluster(), Silence()) as workers:
                assert workers.executor is not None


def test_a_kind_of_another_distribution_does_not_take_the_place_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "plug_ins", lambda group, of: (ClusterKind("ssh", NoCluster),))
    with pytest.raises(SpecError, match="the plug-in for the cluster ssh has the name of another"):
        clusters._all_kinds()


#: All that another distribution needs for a kind of cluster.
TOY = """
from contextlib import contextmanager
from microagg_core.model import Model
from microagg_core.spec.clusters import ClusterKind, NoCluster, StartedWorkers

class ToyCluster(Model):
    toy: StartedWorkers

KIND = ClusterKind("toy", ToyCluster, what="workers that are toys", module="toy_cluster")

@contextmanager
def hired(cluster, progress):
    from microagg_flows import clusters
    progress.say(f"{cluster.toy.n_most} toys work")
    with clusters.hired_workers(NoCluster(), progress) as workers:
        yield workers
"""


def test_a_kind_of_another_distribution_is_one_object(tmp_path: Path) -> None:
    """In a process of its own: a spec's models are made once."""
    (tmp_path / "toy_cluster.py").write_text(TOY)
    (tmp_path / "toy-1.dist-info").mkdir()
    (tmp_path / "toy-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1\n")
    (tmp_path / "toy-1.dist-info" / "entry_points.txt").write_text("[microagg.clusters]\ntoy = toy_cluster:KIND\n")
    pq.write_table(pa.table({"x": [float(i) for i in range(12)], "note": ["a"] * 12}), tmp_path / "people.parquet")
    cluster = {"toy": {"workers": 3}}
    spec = {"name": "people", "id": "one", "k": 3, "input": {"url": "people.parquet"}, "output": {"url": "out"}}
    spec |= {
        "roles": {"quasi_identifiers": ["x"], "confidential": ["note"]},
        "cluster": cluster,
        "work": {"url": "work"},
    }
    (tmp_path / "release.yaml").write_text(json.dumps(spec))
    call = "from microagg_flows.command.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-c", call, "plan", "release.yaml", "--no-expected"]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, "3 toys work" in run.stderr) == (0, True), run.stderr
    schema = subprocess.run([*command[:3], "schema"], env=environment, capture_output=True, text=True, check=True)
    assert "ToyCluster" in json.loads(schema.stdout)["$defs"]


LOADED = """
import signal, threading
from importlib import import_module
from microagg_core.spec.clusters import KINDS
before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
load = lambda: [import_module(f"microagg_flows.clusters.{name}") for name in KINDS]
loading = threading.Thread(target=lambda: load() and print("loaded"))
loading.start()
loading.join()
load()
print(before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)])
"""


def test_no_kind_answers_signals_in_place_of_the_command_whatever_thread_loads_it() -> None:
    """A library's handler would end an interrupted release with exit code 0."""
    run = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["loaded", "True"]
