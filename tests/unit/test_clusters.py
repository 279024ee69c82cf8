"""Kinds of clusters: each that a spec can name is one here."""

from __future__ import annotations

import sys
from typing import get_args

import pytest

from microagg_core.errors import SpecError
from microagg_core.spec.release import Cluster, LocalCluster
from microagg_flows.clusters import KINDS


def test_every_cluster_of_a_spec_has_a_kind_that_connects() -> None:
    assert set(KINDS) == set(get_args(Cluster))
    assert all(callable(kind.load()) for kind in KINDS.values())


def test_only_kinds_that_use_dask_load_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """And where it is missing, one sentence says what to install."""
    for name in [name for name in sys.modules if name.startswith("microagg_flows.clusters.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dask", None)
    monkeypatch.setitem(sys.modules, "distributed", None)
    for model, kind in KINDS.items():
        if kind.extra:
            with pytest.raises(SpecError, match=r"a Dask cluster .* needs .* run: pip install 'microagg\[cluster\]'"):
                kind.load()
        else:
            assert kind.load() and model is not LocalCluster
