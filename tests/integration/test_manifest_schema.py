"""The manifest's JSON schema is what releases have, and what other documents have not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from inputs.people import people
from microagg_core.release.manifest import Manifest, manifest_schema
from releasing.runs import AGAIN, run_stages, start, write_release, write_series

#: Written by the last version before format 2.
FIRST_FORMAT = Path(__file__).with_name("manifest_of_format_1.json")
SCHEMA = Draft202012Validator(manifest_schema())


def released(folder: Path, n: int, **changes: Any) -> dict[str, Any]:
    run_stages(start(write_release(folder, [people(n)], **changes)))
    (manifest,) = (folder / "output").rglob("manifest.json")
    value: dict[str, Any] = json.loads(manifest.read_bytes())
    return value


@pytest.mark.parametrize(
    ("n", "changes"),
    [
        (200, {"algorithm": "best"}),
        (200, {"k": 2, "algorithm": "two_mu_approx", "output": {"url": "output", "format": "csv"}}),
        (9, {"refine": "off", "acknowledge": {"nearly_unique": ["note", "amount"]}}),
        (200, {"unit": ["id"], **AGAIN}),
    ],
    ids=["chosen", "certified", "small", "independent"],
)
def test_a_release_keeps_to_the_schema_and_reads_back_as_it_is(n: int, changes: dict[str, Any], tmp_path: Path) -> None:
    value = released(tmp_path, n, **changes)
    assert [error.message for error in SCHEMA.iter_errors(value)] == []
    data = json.dumps(value).encode()
    assert json.loads(Manifest.from_bytes(data, "here").to_bytes()) == value


def test_a_later_night_keeps_to_the_schema_and_does_not_tell_who_is_withheld(tmp_path: Path) -> None:
    for n in (200, 199):
        run_stages(start(write_series(tmp_path, [people(200).slice(200 - n)]), identity=f"of-{n}"))
    first, later = (json.loads((tmp_path / f"output/of-{n}/r0001/manifest.json").read_bytes()) for n in (200, 199))
    assert [error.message for error in SCHEMA.iter_errors(later)] == []
    assert (first["suppressed"], later["suppressed"]) == (0, None)
    assert later["series"] == {"mode": "atoms", "guarantee": "trace", "night": 1, "smallest_trace": None}
    assert json.loads(Manifest.from_bytes(json.dumps(later).encode(), "here").to_bytes()) == later


def test_a_manifest_of_the_first_format_is_read_with_all_it_says() -> None:
    value = json.loads(FIRST_FORMAT.read_bytes())
    assert value["format_version"] == 1 and "unit" not in value["losses"]["attributes"]["x"]
    assert [error.message for error in SCHEMA.iter_errors(value)] == []
    old = Manifest.from_bytes(FIRST_FORMAT.read_bytes(), "here")
    assert old.losses.l_sse == value["losses"]["l_sse"]
    assert (
        old.losses.attributes is not None
        and old.losses.attributes["x"].mean == value["losses"]["attributes"]["x"]["mean"]
    )
    assert [check.name for check in old.checks] == [check["name"] for check in value["checks"]]
    assert json.loads(old.to_bytes()) == {**value, "series": None, "protect": {}}, "nothing is lost, or added"


@pytest.mark.parametrize(
    "damage",
    [
        lambda v: v.pop("k"),
        lambda v: v.update(surplus=1),
        lambda v: v.update(format_version=4),
        lambda v: v["losses"].update(sse="much"),
        lambda v: v["losses"]["attributes"]["x"].update(il1s="much"),
        lambda v: v["checks"][0].update(passed="perhaps"),
        lambda v: v["parts"][0].update(name="../../secret.parquet"),
    ],
)
def test_what_is_no_manifest_is_none_by_the_schema_either(damage: Callable[[dict[str, Any]], None]) -> None:
    value = copy.deepcopy(json.loads(FIRST_FORMAT.read_bytes()))
    damage(value)
    assert list(SCHEMA.iter_errors(value))
