"""A small release as its user meets it: no cluster, no server, nothing but the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from command_line import Project

from inputs.people import people
from microagg_core.release.sizing.tasks import planned_seconds
from microagg_core.spec.clusters import LocalCluster, NoCluster
from microagg_core.spec.loading import load_spec
from microagg_flows import clusters
from microagg_flows.clusters import cluster_for
from microagg_flows.prefect_side import names_prefect_server

ROLES = {
    "identifiers": ["id"],
    "quasi_identifiers": ["x", "y"],
    "blocking": ["region", "town"],
    "confidential": ["note", "amount"],
}
#: Runs the command and tells which of the heavy packages it has loaded.
SCRIPT = """
import json, sys
from microagg_flows.command.cli import main
sys.argv = ["microagg", "run", "release.yaml", "--quiet", "--json"]
try:
    main()
finally:
    loaded = [name for name in ("dask", "distributed", "prefect", "s3fs", "matplotlib") if name in sys.modules]
    print(json.dumps(loaded), file=sys.stderr)
"""


def test_a_small_release_starts_neither_a_cluster_nor_a_server(tmp_path: Path) -> None:
    project = Project(tmp_path, cluster=None)
    project.write(people(500))
    project.write_spec(ROLES)
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr.splitlines()[-1]) == []
    assert json.loads(done.stdout)["records"] == 500
    assert project.released().num_rows == 500


@pytest.mark.parametrize(
    ("rows", "refine", "kind"),
    [(200_000, "off", NoCluster), (1_000, "thorough", NoCluster), (20_000, "thorough", LocalCluster)],
)
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_what_a_release_may_take_decides_who_works(
    rows: int, refine: str, kind: type, form: str, tmp_path: Path
) -> None:
    project = Project(tmp_path, cluster=None)
    if form == "csv":
        (tmp_path / "people.csv").write_text("x\n" + "1\n" * (rows - 1), encoding="utf-8")
    else:
        project.write(people(1000).take([0] * rows))
    project.write_spec({"quasi_identifiers": ["x"]}, input={"url": f"people.{form}"}, refine=refine)
    assert isinstance(cluster_for(load_spec(str(tmp_path / "release.yaml"))), kind)


def test_workers_start_once_much_is_planned_and_the_same_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {}
    for name in ("alone", "helped"):
        project = Project(tmp_path / name, cluster=None)
        project.write(people(500))
        project.write_spec(ROLES)
        if name == "helped":  # the survey is little, the blocks are too much
            least = planned_seconds(load_spec(str(project.folder / "release.yaml")), 500)
            monkeypatch.setattr(clusters, "ALONE_SECONDS", least + 1e-6)
        assert "by workers that a run starts" in project.call("plan", "release.yaml", "-q").out or name == "alone"
        ended = project.call("run", "release.yaml", "--direct", "--json")
        assert ended.code == 0, ended.err
        made[name] = project.released(), [line for line in ended.err.splitlines() if " of CPU, " in line]
    assert made["alone"][0].equals(made["helped"][0])
    assert [made[name][1][0].rpartition(", ")[2] for name in made] == ["in this process", "by 2 workers"]


def test_a_named_prefect_server_is_used_however_small_the_release(tmp_path: Path) -> None:
    environment = {"PREFECT_HOME": str(tmp_path)}
    assert not names_prefect_server(environment)
    assert names_prefect_server({**environment, "PREFECT_API_URL": "http://127.0.0.1:4200/api"})
    (tmp_path / "profiles.toml").write_text('active = "here"\n[profiles.here]\nPREFECT_API_URL = "http://here/api"\n')
    assert names_prefect_server(environment)


@pytest.mark.parametrize(
    ("k", "words"),
    [
        (2, "each of 2 who share a combination can compute the other's values from his own and the mean"),
        (3, "2 of 3 who share a combination can compute the third's values from their own and the mean"),
    ],
)
def test_plan_and_page_say_what_members_of_a_group_compute_of_each_other(k: int, words: str, tmp_path: Path) -> None:
    """And it is so: k times the mean, less their own values, is the last one's."""
    project = Project(tmp_path, cluster=None)
    rng = np.random.default_rng(k)
    came = pa.table({"x": rng.normal(size=8 * k), "mark": [str(i % k) for i in range(8 * k)]})
    project.write(came)
    project.write_spec(
        {"quasi_identifiers": ["x"], "confidential": ["mark"]}, k=k, rounding={"x": "none"}, refine="off"
    )
    assert words in project.call("plan", "release.yaml", "-q", "--no-expected").out
    project.release()
    (page,) = project.output.glob("*/r0001/README.md")
    assert words in page.read_text(encoding="utf-8")
    mean, size = np.unique(project.released()["x"].to_numpy(), return_counts=True)
    lowest = np.sort(came["x"].to_numpy())[: size[0]]
    assert size[0] * mean[0] - lowest[:-1].sum() == pytest.approx(lowest[-1])


def test_a_single_column_of_categories_is_released_and_its_risk_shown(tmp_path: Path) -> None:
    """Of which nobody can know a part, or a value nearly."""
    project = Project(tmp_path, "none")
    project.write(pa.table({"sex": ["f", "m"] * 30, "income": list(range(60))}))
    project.write_spec(
        {"quasi_identifiers": ["sex"], "confidential": ["income"]}, acknowledge={"nearly_unique": ["income"]}
    )
    ended = project.call("run", "release.yaml", "--direct", "--quiet")
    assert (ended.code, ended.err) == (0, "") and "picks the right record for" in ended.out
