"""Fields of a spec that a command sets for once."""

from __future__ import annotations

from pathlib import Path

import pytest

from covering import each
from microagg_core.errors import SpecError
from microagg_core.spec.clusters import LocalCluster
from microagg_core.spec.loading import canonical, load_spec
from microagg_core.spec.release import ReleaseSpec

TEXT = """\
name: people
k: 3
algorithm: v_mdav
input: {url: in.parquet}
output: {url: out}
work: {url: work}
roles: {identifiers: [who], quasi_identifiers: [age], blocking: [town]}
unit: who
series: {mode: atoms, ledger: memory, key_file: key}
cluster: local
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "release.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def with_set(path: Path, *settings: str) -> ReleaseSpec:
    return load_spec(str(path), settings)


def refused(path: Path, *settings: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        with_set(path, *settings)
    return str(caught.value).splitlines()


def test_what_is_set_is_part_of_the_spec(path: Path) -> None:
    spec = with_set(path, "output.url=s3://dev/people", "k=7", "roles.blocking=[]", "id=2026-11-18", "k=8")
    assert (spec.output.url, spec.k, spec.roles.blocking, spec.id) == ("s3://dev/people", 8, (), "2026-11-18")
    assert spec.input == load_spec(str(path)).input
    changed = path.with_name("changed.yaml")
    changed.write_text(TEXT.replace("k: 3", "k: 8"), encoding="utf-8")
    assert canonical(with_set(path, "k=8")) == canonical(load_spec(str(changed))) != canonical(load_spec(str(path)))


def test_a_path_that_is_set_starts_where_those_of_the_file_do(path: Path) -> None:
    assert with_set(path, "output.url=../dev").output.url == str(path.parent.parent / "dev")


def test_what_the_file_leaves_out_or_has_in_short(path: Path) -> None:
    spec = with_set(
        path,
        "algorithm.gamma=0.5",
        "series.ledger.storage_options.anon=true",
        "cluster.local.workers=5",
        "work.keep.failed_days=1",
        "refine.seconds=9",
        "reproducible=false",
    )
    assert (spec.algorithm.name, spec.algorithm.parameters) == ("v_mdav", {"gamma": 0.5})
    assert spec.series is not None and spec.series.ledger is not None
    assert spec.series.ledger.url == str(path.parent / "memory")
    assert spec.series.ledger.storage_options == {"anon": True}
    assert isinstance(spec.cluster, LocalCluster) and spec.cluster.workers == 5
    assert (spec.work.keep.failed_days, spec.effort) == (1, 9)


def test_a_mistake_in_the_file_that_is_set_right_is_none(path: Path) -> None:
    path.write_text(TEXT.replace("k: 3", "k: 1"), encoding="utf-8")
    assert with_set(path, "k=4").k == 4


@each(
    "setting, says",
    [
        ("outptu.url=s3://x/y", "--set outptu: is not a key the spec knows; did you mean output?"),
        ("output.ulr=s3://x/y", "--set output.ulr: is not a key the spec knows; did you mean url?"),
        ("url=s3://x/y", "--set url: is not a key the spec knows here; it belongs under input, output, work or about"),
        ("cluster.local.wokers=2", "--set cluster.local.wokers: is not a key the spec knows; did you mean workers?"),
        ("k=1", "--set k: must be at least 2 (got 1)"),
        ("k=", "--set k: must be a whole number (got nothing)"),
        ("k.x=1", "--set k: must be a whole number (got a mapping)"),
        ("input.url=*.csv", "--set input.url: a text that starts with * or & needs quotes"),
        ("work.url=out/work", "--set work.url: the private work area lies inside the output, where readers could"),
    ],
)
def test_what_cannot_be_set(path: Path, setting: str, says: str) -> None:
    (sentence,) = refused(path, setting)
    assert sentence.startswith(says)


def test_what_is_no_setting(path: Path) -> None:
    says = "--set: write PATH=VALUE, such as --set output.url=s3://dev/people or --set k=7"
    for setting in ("k", "=7", "output..url=x", ""):
        assert refused(path, setting) == [says]


def test_a_secret_is_refused_and_not_said(path: Path) -> None:
    for setting in ("input.storage_options.token=canary", "output.url=s3://me:canary@x/y"):
        (sentence,) = refused(path, setting)
        assert sentence.startswith("--set ") and "canary" not in sentence
