"""A series in the spec: what each mode takes and refuses, and where its key comes from."""

from __future__ import annotations

import pickle
import stat
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from microagg_core.errors import SpecError
from microagg_core.series.keys import read_key
from microagg_core.spec.json_schema import spec_schema
from microagg_core.spec.loading import canonical, load_spec
from microagg_core.spec.release import ReleaseSpec
from microagg_core.spec.series import Hold, Series

PARTS: dict[str, Any] = {
    "name": "people",
    "k": 3,
    "input": {"url": "/data/in.parquet"},
    "output": {"url": "/data/out"},
    "work": {"url": "/data/private"},
    "roles": {"identifiers": ["person"], "quasi_identifiers": ["age", "height"], "blocking": ["region"]},
    "unit": "person",
}
INDEPENDENT = {"mode": "independent", "acknowledge": "overlapping_releases"}
ROTATION = {"mode": "rotation", "nights": 30}
#: A key in a message would show as this word.
CANARY = "canary-canary-canary"


def spec_with(series: Any, **parts: Any) -> ReleaseSpec:
    return ReleaseSpec(**{**PARTS, **parts, "series": series})


def complaint_about(series: Any, **parts: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        spec_with(series, **parts)
    return str(caught.value)


def series_of(series: Any, **parts: Any) -> Series:
    spec = spec_with(series, **parts)
    assert spec.series is not None
    return spec.series


@pytest.mark.parametrize(
    ("series", "guarantee", "leavers"),
    [
        ({"mode": "disjoint"}, "trace", None),
        ({"mode": "disjoint", "guarantee": "trace"}, "trace", None),
        ({"mode": "atoms"}, "trace", "withhold"),
        ({"mode": "atoms", "guarantee": "trace+changes", "leavers": "decoys"}, "trace+changes", "decoys"),
        (ROTATION, "trace", "withhold"),
        ({**ROTATION, "leavers": "ghosts"}, "trace", "ghosts"),
        (INDEPENDENT, None, None),
    ],
)
def test_each_mode_has_its_defaults(series: Any, guarantee: str | None, leavers: str | None) -> None:
    part = series_of(series)
    assert (part.guarantee, part.leavers) == (guarantee, leavers)
    spec = spec_with(series)
    assert ReleaseSpec.model_validate_json(spec.model_dump_json()) == spec
    assert ReleaseSpec.model_validate(spec.model_dump()) == spec


def test_a_spec_without_a_series_is_what_it_was() -> None:
    spec = ReleaseSpec(**PARTS)
    assert spec.series is None and "series" not in canonical(spec)
    assert '"mode":"atoms"' in canonical(spec_with({"mode": "atoms"}))


def test_where_the_key_lies_decides_nothing() -> None:
    one, two = (spec_with({"mode": "atoms", "key_file": path}) for path in ("/keys/a", "/keys/b"))
    assert canonical(one) == canonical(two) == canonical(spec_with({"mode": "atoms"}))


def test_how_long_arrivals_wait() -> None:
    assert series_of({"mode": "disjoint", "hold": {}}).hold == Hold(until="20k", days=7)


@pytest.mark.parametrize(
    ("series", "parts", "says"),
    [
        ({}, {}, "series.mode"),
        ({"mode": "fresh"}, {}, "series.mode"),
        ({"mode": "atoms"}, {"unit": "row"}, "series: follows units from night to night, and a row is none; name in"),
        ({"mode": "rotation"}, {}, "mode: rotation needs nights"),
        ({"mode": "independent"}, {}, "mode: independent releases of the same units undo each other's protection; wr"),
        ({"mode": "independent", "acknowledge": "all"}, {}, "overlapping_releases"),
        ({"mode": "atoms", "acknowledge": "overlapping_releases"}, {}, "acknowledge: is for mode: independent alone"),
        ({"mode": "atoms", "nights": 3}, {}, "nights: is for mode: rotation alone"),
        ({"mode": "disjoint", "leavers": "ghosts"}, {}, "leavers: is for atoms and rotation; a disjoint series"),
        ({"mode": "disjoint", "guarantee": "trace+changes"}, {}, "guarantee: is for atoms and rotation"),
        ({**INDEPENDENT, "guarantee": "trace"}, {}, "guarantee: is for the other modes; independent releases promise"),
        ({**INDEPENDENT, "leavers": "withhold"}, {}, "leavers: is for the other modes"),
        ({**INDEPENDENT, "hold": {}}, {}, "hold: is for the other modes"),
        ({**INDEPENDENT, "nights": 3}, {}, "nights: is for mode: rotation alone"),
        ({"mode": "atoms", "hold": {"until": "20 k"}}, {}, "must be a number of units, or a multiple of k such as 20k"),
        ({"mode": "atoms", "hold": {"until": 2}}, {}, "series.hold.until: must be at least k = 3"),
        ({"mode": "atoms", "hold": {"days": 0}}, {}, "series.hold.days"),
        ({"mode": "atoms"}, {"blocks": {"undersized": "error"}}, "blocks.undersized: must be merge or suppress with m"),
        ({"mode": "atoms", "ledger": {"url": "/data/out/x"}}, {}, "series.ledger.url: lies inside the output"),
        ({"mode": "atoms", "key_file": "/data/out/key"}, {}, "series.key_file: lies inside the output"),
        ({"mode": "atoms", "key_file": "s3://bucket/key"}, {}, "must be the path of a file on the machine"),
    ],
)
def test_what_is_refused_is_named(series: Any, parts: dict[str, Any], says: str) -> None:
    assert says in complaint_about(series, **parts)


def test_independent_releases_may_be_of_rows() -> None:
    assert series_of(INDEPENDENT, unit="row", blocks={"undersized": "error"}).mode == "independent"
    assert series_of({"mode": "disjoint"}, blocks={"undersized": "error"}).mode == "disjoint"


TEXT = """\
name: people
k: 3
input: {url: in.parquet}
output: {url: out}
work: {url: work}
roles: {identifiers: [person], quasi_identifiers: [age], blocking: [region]}
unit: person
series:
"""


def load(folder: Path, series: str) -> ReleaseSpec:
    (folder / "release.yaml").write_text(TEXT + "".join(f"  {line}\n" for line in series.splitlines()))
    return load_spec(str(folder / "release.yaml"))


def errors(folder: Path, series: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load(folder, series)
    return [line.removeprefix(f"{folder}/") for line in str(caught.value).splitlines()]


def test_paths_start_at_the_files_folder(tmp_path: Path) -> None:
    ledger = "ledger: memory"
    series = load(tmp_path, f"mode: atoms\nhold: {{until: 20k}}\n{ledger}\nkey_file: keys/people").series
    assert series is not None and series.ledger is not None
    assert (series.ledger.url, series.key_file) == (f"{tmp_path}/memory", f"{tmp_path}/keys/people")


@pytest.mark.parametrize(
    ("series", "line"),
    [
        ("mode: rotation", "release.yaml:9: series.mode: rotation needs nights: for how many an atom is released b"),
        ("hold: {}", "release.yaml:8: series.mode: is missing: disjoint: a unit is released once; atoms: groups stay"),
        ("mode: atoms\nuntil: 5", "release.yaml:10: series.until: is not a key the spec knows here; it belongs under "),
        ("mode: atoms\nledger: out", "release.yaml:10: series.ledger: lies inside the output, where readers could s"),
    ],
)
def test_lines_of_a_file_say_what_is_wrong(tmp_path: Path, series: str, line: str) -> None:
    assert [found for found in errors(tmp_path, series) if found.startswith(line)]


@pytest.mark.parametrize("name", ["key", "MICROAGG_SERIES_KEY"])
def test_a_key_in_the_spec_is_refused_and_not_shown(tmp_path: Path, name: str) -> None:
    (line,) = errors(tmp_path, f"mode: atoms\n{name}: {CANARY}")
    assert line.startswith(f"release.yaml:10: series.{name}: looks like a credential, and a spec must not hold one")
    assert CANARY not in line


def test_the_json_schema_and_the_models_agree() -> None:
    validator = jsonschema.Draft202012Validator(spec_schema())
    hold = {"until": 20, "days": 3}
    for series in ({"mode": "atoms"}, {"mode": "atoms", "ledger": {"url": "/ledger"}, "hold": hold}, None):
        assert validator.is_valid({**PARTS, "series": series})
        spec_with(series)
    for wrong in ({"mode": "fresh"}, {"mode": "atoms", "hold": {"until": "lots"}}, {"mode": "atoms", "nightly": 3}):
        assert not validator.is_valid({**PARTS, "series": wrong})
        complaint_about(wrong)


# Keys.


def key_file(folder: Path, text: str, mode: int = 0o600) -> str:
    path = folder / "key"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def atoms(path: str | None = None) -> Series:
    return Series(mode="atoms", key_file=path)


def refusal(series: Series, environ: dict[str, str]) -> str:
    with pytest.raises(SpecError) as caught:
        read_key(series, environ)
    assert "canary" not in caught.value.message
    return caught.value.message


def test_a_key_is_one_wherever_it_comes_from(tmp_path: Path) -> None:
    in_file = atoms(key_file(tmp_path, f"\n {CANARY}\r\n"))
    environ = {"MICROAGG_SERIES_KEY": f"{CANARY} "}
    assert read_key(in_file, {}) == read_key(atoms(), environ) == read_key(in_file, environ)
    assert read_key(in_file, {"MICROAGG_SERIES_KEY": ""}).secret == CANARY.encode()


def test_a_key_shows_in_no_repr_and_comes_back_from_afar() -> None:
    key = read_key(atoms(), {"MICROAGG_SERIES_KEY": CANARY})
    assert CANARY not in f"{key!r} {key} {key.fingerprint}"
    assert pickle.loads(pickle.dumps(key)) == key
    assert key.seed("row") != key.seed("value") and 0 <= key.seed("row") < 2**62


def test_there_must_be_a_key() -> None:
    says = "series: needs a secret key, the same every night; set MICROAGG_SERIES_KEY or name a file in series.key_file"
    assert refusal(atoms(), {}) == refusal(atoms(), {"MICROAGG_SERIES_KEY": " \n"}) == says


def test_a_key_that_is_too_short(tmp_path: Path) -> None:
    says = "a series needs a key of at least 16 bytes (got 6)"
    assert refusal(atoms(), {"MICROAGG_SERIES_KEY": "canary"}) == f"MICROAGG_SERIES_KEY: {says}"
    assert refusal(atoms(key_file(tmp_path, "canary\n")), {}) == f"series.key_file: {says}"


def test_two_keys_are_one_too_many(tmp_path: Path) -> None:
    series = atoms(key_file(tmp_path, CANARY))
    assert "holds another key than MICROAGG_SERIES_KEY" in refusal(series, {"MICROAGG_SERIES_KEY": f"other-{CANARY}"})


def test_a_key_that_others_can_read(tmp_path: Path) -> None:
    for mode in (0o640, 0o604, 0o666, 0o610):
        path = key_file(tmp_path, CANARY, mode)
        assert refusal(atoms(path), {}) == f"series.key_file: others can read {path}; chmod 600 {path}"
    Path(path).chmod(stat.S_IRUSR)
    assert read_key(atoms(path), {}).secret == CANARY.encode()


def test_a_key_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "nothing"
    assert refusal(atoms(str(path)), {}).startswith(f"series.key_file: there is no file {path}; write")
    assert "is not a file" in refusal(atoms(str(tmp_path)), {})
    assert "is empty" in refusal(atoms(key_file(tmp_path, " \n")), {"MICROAGG_SERIES_KEY": CANARY})
    assert "is too large for a key" in refusal(atoms(key_file(tmp_path, CANARY * 1_000)), {})
