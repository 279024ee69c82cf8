"""Names in braces in a spec's input, and the moment that a release is meant for."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from microagg_core.errors import SpecError
from microagg_core.release.facts import meant_moment, settled_spec
from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import ReleaseSpec

NOW = datetime.datetime(2026, 11, 18, 3, 0, tzinfo=datetime.UTC)
GOOD = """\
name: people
k: 3
input: {url: "s3://in/{date}/{id}.parquet"}
output: {url: /out}
work: {url: /work}
roles: {quasi_identifiers: [age]}
"""


def load(folder: Path, text: str = GOOD) -> ReleaseSpec:
    path = folder / "release.yaml"
    path.write_text(text, encoding="utf-8")
    return load_spec(str(path))


@pytest.mark.parametrize(
    ("spec_id", "identity", "url"),
    [
        ("date", "2026-11-18", "s3://in/2026-11-18/2026-11-18.parquet"),
        ("date", "2026-11-01", "s3://in/2026-11-01/2026-11-01.parquet"),  # a day that is filled in has its own input
        ("date", "special", "s3://in/2026-11-18/special.parquet"),
        ("one", "one", "s3://in/2026-11-18/one.parquet"),
        ("one", "2026-11-01", "s3://in/2026-11-18/2026-11-01.parquet"),  # an id of one's own is no day
    ],
)
def test_what_the_names_stand_for(tmp_path: Path, spec_id: str, identity: str, url: str) -> None:
    spec = load(tmp_path, f"id: {spec_id}\n{GOOD}")
    assert settled_spec(spec, identity, NOW).input.url == url
    assert settled_spec(settled_spec(spec, identity, NOW), "other", NOW).input.url == url


def test_a_release_is_meant_for_the_day_that_is_its_id(tmp_path: Path) -> None:
    spec = load(tmp_path)
    assert meant_moment(spec, "2026-11-01", NOW) == NOW.replace(day=1)
    assert meant_moment(spec, "special", NOW) == NOW


def test_an_unknown_name_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        load(tmp_path, GOOD.replace("{date}", "{dat}"))
    (sentence,) = str(caught.value).splitlines()
    assert ":3: input.url: has a name in braces that is neither {id}, the release's id, nor {date}" in sentence


@pytest.mark.parametrize("place", ["output: {url: /out}", "work: {url: /work}"])
def test_other_places_have_no_names(tmp_path: Path, place: str) -> None:
    name = place.partition(":")[0]
    with pytest.raises(SpecError, match=rf"{name}.url: must be the same for all releases"):
        load(tmp_path, GOOD.replace(place, f"{name}: {{url: '/{name}/{{date}}'}}"))
    assert load(tmp_path, GOOD.replace(place, f"{name}: {{url: '/{name}/{{other}}'}}"))
