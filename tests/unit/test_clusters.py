"""Kinds of clusters: each that a spec can name is one here."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from typing import get_args

import pytest

from microagg_core.errors import SpecError
from microagg_core.spec.clusters import MODELS
from microagg_core.spec.json_schema import spec_schema
from microagg_core.spec.release import Cluster, LocalCluster, NoCluster
from microagg_flows.clusters import KINDS
from microagg_flows.progress import Silence


def test_every_cluster_of_a_spec_has_a_kind_that_has_workers() -> None:
    assert set(KINDS) == set(get_args(Cluster))
    assert all(callable(import_module(kind.module).hired) for kind in KINDS.values())


def test_every_cluster_of_a_spec_is_told_by_its_first_key_and_is_in_the_json_schema() -> None:
    assert set(MODELS.values()) == set(get_args(Cluster))
    first = [next(iter(model.model_fields)) for model in MODELS.values()]
    others = [[*model.model_fields][1:] for model in MODELS.values()]
    assert len(set(first)) == len(first) and not set(first) & {key for keys in others for key in keys}
    schema = spec_schema()
    assert {model.__name__ for model in MODELS.values()} <= set(schema["$defs"])
    refs = [form["$ref"] for form in schema["properties"]["cluster"]["anyOf"] if "$ref" in form]
    assert len(refs) == len(MODELS) - 1, "none has no keys"


def test_only_kinds_that_use_dask_load_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """And where it is missing, one sentence says what to install."""
    for name in [name for name in sys.modules if name.startswith("microagg_flows.clusters.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dask", None)
    monkeypatch.setitem(sys.modules, "distributed", None)
    for model, kind in KINDS.items():
        if kind.extra:
            words = rf"{kind.what} .* needs .*; run: pip install 'microagg\[{kind.extra}\]'"
            with pytest.raises(SpecError, match=words):
                kind.hired(None, Silence())
        else:
            assert model is not LocalCluster
            with kind.hired(NoCluster(), Silence()) as workers:
                assert workers.executor is not None


LOADED = """
import signal, threading
from importlib import import_module
from microagg_flows.clusters import KINDS
before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
loading = threading.Thread(target=lambda: [import_module(kind.module) for kind in KINDS.values()] and print("loaded"))
loading.start()
loading.join()
[import_module(kind.module) for kind in KINDS.values()]
print(before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)])
"""


def test_no_kind_answers_signals_in_place_of_the_command_whatever_thread_loads_it() -> None:
    """A library's handler would end an interrupted release with exit code 0."""
    run = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["loaded", "True"]
