"""A folder for every test, and one real Dask cluster for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Project

from servers.dask_processes import DaskCluster, running_cluster


@pytest.fixture(scope="session")
def dask_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """A real scheduler and two real workers without credentials, shared by all tests of the session."""
    no_keys = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    with running_cluster(tmp_path_factory.mktemp("dask"), no_keys) as cluster:
        yield cluster


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Project:
    """An empty folder, with a spec that uses the session's cluster, or none where the module has CLUSTER = "none"."""
    if getattr(request.module, "CLUSTER", "") == "none":
        return Project(tmp_path, "none")
    return Project(tmp_path, {"address": request.getfixturevalue("dask_cluster").address})
