"""From a YAML file to a spec, and from what is wrong with it to lines that say where."""

# ruff: noqa: E501 - the sentences stand here whole, as a user reads them

from __future__ import annotations

import os
from pathlib import Path

import pytest

from covering import each
from microagg_core.errors import SpecError, StorageError
from microagg_core.spec.clusters import LocalCluster
from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import ReleaseSpec

GOOD = """\
name: people
id: 2026-11-18
k: 3
input:
  url: in/*.parquet
output: {url: ../out}
work: {url: s3://bucket/work}
roles:
  identifiers: [person]
  quasi_identifiers: [age, height]
  blocking: [region]
  confidential:
    - income
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(text: str | bytes) -> ReleaseSpec:
    Path("release.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_spec("release.yaml")


def errors(text: str | bytes) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load(text)
    assert caught.value.exit_code == 2
    return str(caught.value).splitlines()


def test_a_good_file(tmp_path: Path) -> None:
    spec = load(GOOD)
    assert spec.id == "2026-11-18"
    assert spec.input.url == str(tmp_path / "in/*.parquet")
    assert spec.output.url == str(tmp_path.parent / "out")
    assert spec.work.url == "s3://bucket/work"


def test_paths_start_at_the_files_folder_wherever_it_is_read_from(tmp_path: Path) -> None:
    load(GOOD)
    os.chdir(tmp_path.parent)
    assert load_spec(f"{tmp_path.name}/release.yaml").input.url == str(tmp_path / "in/*.parquet")
    assert load_spec(f"file://{tmp_path}/release.yaml").input.url == str(tmp_path / "in/*.parquet")


def test_a_spec_in_a_remote_store() -> None:
    import fsspec

    fsspec.filesystem("memory").pipe_file("/specs/a/release.yaml", GOOD.encode())
    spec = load_spec("memory://specs/a/release.yaml")
    assert spec.input.url == "memory://specs/a/in/*.parquet"
    with pytest.raises(StorageError, match="does not exist"):
        load_spec("memory://specs/a/other.yaml")


def test_the_error_of_the_house() -> None:
    assert errors(GOOD.replace("k: 3", "\nk: 1")) == ["release.yaml:4: k: must be at least 2 (got 1)"]


ONE_ERROR = {
    "name: people": [
        ("name: a b", "1: name: must be at most 64 letters, digits, '.', '_' and '-', and start with a letter or digit (got 'a b')"),
        ("name: null", "1: name: must be text (got nothing)"),
        ("name: [a]", "1: name: must be text (got a list)"),
        ("nam: people\nname: a", "1: nam: is not a key the spec knows; did you mean name?"),
        ("name: a\nquasi_identifiers: [a]", "2: quasi_identifiers: is not a key the spec knows here; it belongs under roles"),
        ("name: a\nurl: b", "2: url: is not a key the spec knows here; it belongs under input, output, work or about"),
        ("name: a\napi_token: canary", "2: api_token: looks like a credential, and a spec must not hold one; give it to each worker by its environment, profile or role"),
        ("", "2: name: is missing: name of the series of releases"),
        ("name: a\nseed: -1", "2: seed: must be at least 0 (got -1)"),
        ("name: a\nseed: 9223372036854775808", "2: seed: must be less than 9223372036854775808 (got 9223372036854775808)"),
        ("name: a\nversion: 2", "2: version: must be 1 (got 2)"),
        ("name: a\nmissing: no", "2: missing: must be one of error, blank or separate (got 'no')"),
        ("name: a\nunit: 7", "2: unit: '7' must be an identifier, so that nothing of what names a unit is released"),
        ("name: a\nunit:\n  - person\n  - []", "4: unit[1]: must be text (got a list)"),
        ("name: a\nblocks: big", "2: blocks: must be a mapping with the keys undersized, labels, totals_known, max_records (got 'big')"),
        ("name: a\nblocks: {max_records: 1.5}", "2: blocks.max_records: must be a whole number (got 1.5)"),
        ("name: a\nrounding:\n  height: 1\n  age: 0", "4: rounding.age: must be 'type', 'none' or a step greater than 0 (got 0)"),
        ("name: a\nrounding:\n  age: true", "3: rounding.age: must be 'type', 'none' or a step greater than 0 (got true)"),
        ("name: a\nrounding: {'': 1}", "2: rounding.'': its name must not be empty"),
        ("name: a\nrounding: [age]", "2: rounding: must be a mapping of names to values (got a list)"),
        ("name: a\nalgorithm: magic", "2: algorithm: must be one of mdav, "),
        ("name: a\nalgorithm:\n  name: v_mdav\n  gamma: -1", "4: algorithm.gamma: must be a number of at least 0 or 'auto' (got -1)"),
        ("name: a\nalgorithm:\n  name: v_mdav\n  parameters:\n    delta: 1", "5: algorithm.parameters.delta: is not a parameter of v_mdav; it takes gamma"),
        ("name: a\nalgorithm: [mdav]", "2: algorithm: must be a mapping with the keys name, parameters (got a list)"),
        ("name: a\ncluster: 5", "2: cluster: must be 'none', 'local', a scheduler's address, or one of 'local:', 'ssh:', 'slurm:' and 'kubernetes:' with what each takes (got 5)"),
        ("name: a\ncluster: host:8786", "2: cluster: must be the address of a scheduler, such as tls://scheduler:8786, or 'local' or 'none' (got 'host:8786')"),
        ("name: a\ncluster:\n  address: 5", "3: cluster.address: must be the address of a scheduler, such as tls://scheduler:8786, or 'local' or 'none' (got 5)"),
        ("name: a\ncluster:\n  local:\n    worker: 2", "4: cluster.local.worker: is not a key the spec knows; did you mean workers?"),
        ("name: a\ncluster:\n  local:\n    workers: 0", "4: cluster.local.workers: must be at least 1 (got 0)"),
        ("name: a\ncluster:\n  workers: two", "3: cluster.workers: must be a whole number (got 'two')"),
        ("name: a\ncluster:\n  adress: tls://a:1", "3: cluster.adress: is not a key the spec knows; did you mean address?"),
        ("name: a\ncluster: {local: {memory: lots}}", "2: cluster.local.memory: must be a size such as 512MiB or 2GiB (got 'lots')"),
        ("name: a\nacknowledge: {nearly_unique: [age]}", "2: acknowledge.nearly_unique[0]: 'age' is not a confidential column"),
    ],
    "  url: in/*.parquet": [
        ("  urll: a\n  url: b", "5: input.urll: is not a key the spec knows; did you mean url?"),
        ("  format: csv", "4: input.url: is missing: fsspec URL or path; relative paths start at the spec's folder; {id} in it stands for the release's id, {date} for the day of the run"),
        ("  url: ''", "5: input.url: must not be empty (got '')"),
        ("  url: s3://me:canary@b/x", "5: input.url: must not hold a user or password; use the environment of each worker"),
        ("  url: a\n  format: pq", "6: input.format: must be one of auto, parquet, csv or arrow (got 'pq')"),
        ("  url: a\n  csv:\n    delimiter: ab", "7: input.csv.delimiter: must have at most 1 character(s) (got 'ab')"),
        ("  url: a\n  csv:\n    encoding: klingon", "7: input.csv.encoding: is not an encoding Python knows (got 'klingon')"),
        ("  url: a\n  csv:\n    types:\n      a: int64\n      b: itn", "9: input.csv.types.b: must be one of text, "),
        ("  url: a\n  storage_options: canary", "6: input.storage_options: must be a mapping of names to values"),
        ("  url: a\n  storage_options:\n    client_kwargs:\n      password: canary", "8: input.storage_options.client_kwargs.password: looks like a credential, and a spec must not hold one; give it to each worker by its environment, profile or role"),
    ],
    "    - income": [
        ("    - income\n    - ''", "14: roles.confidential[1]: must not be empty (got '')"),
        ("    - income\n    - debts\n    - age", "15: roles.confidential[2]: column 'age' stands in quasi_identifiers and in confidential; give it one role"),
        ("    - income\n  to_decide:\n    - a\n    - 7", "14: roles.to_decide: columns without a role yet: 'a', '7'; move each to identifiers, quasi_identifiers, blocking, confidential, weight or drop"),
        ("    - income\n  blockng: [a]", "14: roles.blockng: is not a key the spec knows; did you mean blocking?"),
        ("    - income\n  drop: a", "14: roles.drop: must be a list, such as [a, b] (got 'a')"),
        ("    - income\n  drop:", "14: roles.drop: must be a list, such as [a, b] (got nothing)"),
    ],
    "output: {url: ../out}": [
        ("output: ../out", "6: output: must be a mapping with the keys url, storage_options, format, csv, sign (got '../out')"),
        ("output: {url: s3://bucket}", "7: work.url: the private work area lies inside the output, where readers could see it; move it"),
    ],
}  # fmt: skip


@each("old, new, says", [(old, *case) for old, cases in ONE_ERROR.items() for case in cases])
def test_one_mistake_gives_one_line(old: str, new: str, says: str) -> None:
    (line,) = errors(GOOD.replace(old, new))
    assert line == f"release.yaml:{says}" or (says.endswith(", ") and line.startswith(f"release.yaml:{says}"))


def test_every_error_of_the_file_at_once() -> None:
    text = """\
name: people
k: 40
k: 50
algorithm: {name: v_mdav, gamma: -1}
inptu: {url: a}
input: {url: a.csv, csv: {types: {a: itn}}}
output: {url: out}
work: {url: out/sub}
roles:
  quasi_identifiers: [age]
  confidential: [age]
  identifiers: [1, []]
blocks: {max_records: 20}
seed: x
"""
    starts = [
        "release.yaml:3: k: stands here and on line 2; a key may stand once",
        "release.yaml:4: algorithm.gamma: must be a number",
        "release.yaml:5: inptu: is not a key the spec knows; did you mean input?",
        "release.yaml:6: input.csv.types.a: must be one of",
        "release.yaml:8: work.url: the private work area lies inside the output",
        "release.yaml:11: roles.confidential[0]: column 'age' stands in quasi_identifiers and in confidential",
        "release.yaml:12: roles.identifiers[1]: must be text (got a list)",
        "release.yaml:13: blocks.max_records: must be at least 2k = 80 (got 20)",
        "release.yaml:14: seed: must be a whole number (got 'x')",
    ]
    found = errors(text)
    assert len(found) == len(starts), found
    assert all(line.startswith(start) for line, start in zip(found, starts, strict=True)), found


def test_checks_across_fields_do_not_hide_each_other() -> None:
    found = errors(GOOD + "rounding: {income: 1}\nunit: [income]\nacknowledge:\n  nearly_unique: [age]\n")
    assert [line.split(": ")[1] for line in found] == ["rounding.income", "unit[0]", "acknowledge.nearly_unique[0]"]


def test_text_is_taken_as_written_where_text_is_wanted() -> None:
    spec = load(
        GOOD.replace("2026-11-18", "20261118")
        .replace("[age, height]", "[2020, 2021.50, on, yes, true, 0x1F, 1_000]")
        .replace("in/*.parquet", "a.csv\n  csv: {null_words: [-999, NA, null, ~, 1.50, '']}")
    )
    assert spec.id == "20261118"
    names = [quasi_identifier.name for quasi_identifier in spec.roles.quasi_identifiers]
    assert names == ["2020", "2021.50", "on", "yes", "true", "0x1F", "1_000"]
    assert spec.input.csv.null_words == ("-999", "NA", "null", "~", "1.50", "")


def test_what_is_wrong_with_a_quasi_identifier() -> None:
    text = GOOD.replace(
        "  quasi_identifiers: [age, height]\n",
        """  quasi_identifiers:
    - age
    - {name: 2020, kind: ordinal, levels: [1, yes, 3.50]}
    - {kind: nominal}
    - {name: a, kind: nominel}
    - {name: b, kind: nominal, levels: [x]}
    - {name: c, kind: ordinal, levels: [x, y, x]}
    - {name: d, weight: 0, kinds: ordinal}
    - [e]
    - {name: f, scale: log, top: 101%}
    - {name: g, kind: nominal, top: 99.5%, zeros: separate}
    - {name: h, scale: rank, top: 1e5, zeros: apart}
""",
    )
    assert errors(text) == [
        "release.yaml:13: roles.quasi_identifiers[2].name: is missing: the column's name",
        "release.yaml:14: roles.quasi_identifiers[3].kind: must be one of number, ordinal or nominal (got 'nominel')",
        "release.yaml:15: roles.quasi_identifiers[4].levels: are for kind: ordinal; add that, or take the levels away",
        "release.yaml:15: roles.quasi_identifiers[4].levels: must be at least two",
        "release.yaml:16: roles.quasi_identifiers[5].levels[2]: 'x' is named twice",
        "release.yaml:17: roles.quasi_identifiers[6].weight: must be at least 0.001 (got 0)",
        "release.yaml:17: roles.quasi_identifiers[6].kinds: is not a key the spec knows; did you mean kind?",
        "release.yaml:18: roles.quasi_identifiers[7]: must be text (got a list)",
        "release.yaml:19: roles.quasi_identifiers[8].scale: must be one of log1p, rank or robust (got 'log')",
        "release.yaml:19: roles.quasi_identifiers[8].top: must be a number in the column's unit, or a percentage from 50% "
        "to below 100%, such as '99.5%' (got '101%')",
        "release.yaml:20: roles.quasi_identifiers[9].top: is for numbers, and the column is nominal; take it away",
        "release.yaml:20: roles.quasi_identifiers[9].zeros: is for numbers, and the column is nominal; take it away",
        "release.yaml:21: roles.quasi_identifiers[10].zeros: must be separate (got 'apart')",
    ]
    right = "\n".join(
        line for line in text.splitlines() if not line.startswith(("    - {", "    - [")) or "2020" in line
    )
    declared = load(right).roles.quasi_identifiers[1]
    assert (declared.name, declared.levels) == ("2020", ("1", "yes", "3.50"))


def test_numbers_are_read_as_people_write_them() -> None:
    spec = load(GOOD + "rounding: {age: 1e-1, height: .5}\nblocks: {max_records: 100_000}\n")
    assert spec.rounding == {"age": 0.1, "height": 0.5}
    assert spec.blocks.max_records == 100_000


def test_off_is_a_word_here() -> None:
    assert load(GOOD + "refine: off\n").refine == "off"


def test_a_time_budget_is_told_what_it_needs() -> None:
    says = "refine.seconds: makes the release depend on the machine's speed; set reproducible: false"
    assert errors(GOOD + "refine: {seconds: 5}\n") == [f"release.yaml:14: {says}"]
    assert load(GOOD + "refine: {seconds: 5}\nreproducible: false\n").effort == 5


def test_anchors_and_merge_keys() -> None:
    text = GOOD.replace("output: {url: ../out}", "output: &store {url: ../out, storage_options: {anon: true}}")
    spec = load(text.replace("work: {url: s3://bucket/work}", "work:\n  <<: *store\n  url: elsewhere"))
    assert spec.work.storage_options == {"anon": True}
    assert spec.work.url.endswith("elsewhere")
    wrong = text.replace("anon: true", "key: canary").replace(
        "work: {url: s3://bucket/work}", "work: {<<: *store, url: b}"
    )
    assert [line.split(": ")[0:2] for line in errors(wrong)] == [
        ["release.yaml:6", "output.storage_options.key"],
        ["release.yaml:6", "work.storage_options.key"],
    ]


def test_a_shorthand_of_every_kind_together() -> None:
    spec = load(GOOD + "algorithm: v_mdav\nunit: person\ncluster: local\n")
    assert (spec.algorithm.name, spec.unit, spec.cluster) == ("v_mdav", ("person",), LocalCluster())


@each(
    "text, says",
    [
        ("a:\n\tb: canary\n", "2: a tab stands where YAML wants spaces"),
        ("a: b: canary\n", "1: a ':' stands where no key can be; check the indentation, or use quotes"),
        ("a: 1\ncanary\nb: 2\n", "2: a ':' is missing after a key, or the indentation is wrong"),
        ("a: [1,\nb: canary\n", "3: the [ on line 1 is not closed, or a comma is missing"),
        ("a: 1\nb: {c: 1\nd: canary\n", "3: the { on line 2 is not closed, or a comma is missing"),
        ("a: 'canary\nb: 1\n", "1: the quote that opens here is never closed"),
        ('a: "C:\\data"\n', "1: a backslash in double quotes is doubled, or the text stands in single quotes"),
        ("a: *canary\n", "1: a text that starts with * needs quotes; as an alias, it has no anchor"),
        ("a: @canary\n", "1: a text that starts with @ needs quotes"),
        ("a: 1\n---\nb: canary\n", "2: a second document starts here; a spec is one"),
        ("a: \x01canary\n", "1: a control character stands here, which YAML does not allow"),
        (b"a: 1\nb: canary\xff\n", "2: a byte stands here that is not UTF-8 text; save the file as UTF-8"),
        ("a: " + "[" * 60 + "]" * 60, "1: is nested too deeply: a spec has at most 50 levels"),
        ("a: " + "[" * 2000, "1: is nested too deeply: a spec has at most 50 levels"),
        ("- a\nb: 1\n", "2: the indentation does not fit the lines above"),
        ("%YAML 9.9\n---\na: canary\n", "1: cannot be read as YAML"),
    ],
)
def test_what_is_not_yaml(text: str | bytes, says: str) -> None:
    assert errors(text) == [f"release.yaml:{says}"]


@each(
    "text, says",
    [
        ("name: !canary x", "1: a tag stands here; a text that starts with ! needs quotes"),
        ("name: !!python/name:os.system x", "1: a tag stands here; a text that starts with ! needs quotes"),
        ("name: !!int canary", "1: a tag stands here that does not fit its value; leave the tag out"),
        ("name: a\n? [b]\n: 1", "2: a key must be text"),
        ("name: a\n<<: canary", "2: << must name a mapping, or a list of mappings"),
        ("name: a\nrounding: &r {age: *r}", "2: an anchor leads back to itself"),
        ("name: a\nid: b\nid: c", "3: id: stands here and on line 2; a key may stand once"),
    ],
)
def test_yaml_that_a_spec_may_not_use(text: str, says: str) -> None:
    assert errors(GOOD.replace("name: people", text).replace("\nid: 2026-11-18", "")) == [f"release.yaml:{says}"]


def test_aliases_of_aliases_do_not_fill_the_memory() -> None:
    levels = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert errors("\n".join(levels)) == ["release.yaml:1: is too large: a spec has at most 100,000 values"]


@each(
    "text, says",
    [
        ("", "is empty; microagg init DATA writes one to start from"),
        ("# nothing but a comment\n", "is empty; microagg init DATA writes one to start from"),
        ("- a\n- b\n", "must be a mapping of keys to values; microagg init DATA writes one to start from"),
        ("canary", "must be a mapping of keys to values; microagg init DATA writes one to start from"),
        ("a" * 2_000_001, "is too large for a release spec; name the YAML file, not the data"),
    ],
)
def test_what_is_no_spec_at_all(text: str, says: str) -> None:
    assert errors(text) == [f"release.yaml: {says}"]


@each(
    "name, says",
    [
        ("nowhere.yaml", "nowhere.yaml: there is no such file; microagg init DATA writes one to start from"),
        (".", ".: is a folder; name the spec file in it, such as ./release.yaml"),
        ("zip://a.yaml::b.zip", "zip://a.yaml::b.zip: a spec is a file or an object of its own, not part of another; copy it out"),
    ],
)  # fmt: skip
def test_what_is_no_file(name: str, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(name)
    assert str(caught.value) == says


def test_a_file_name_that_is_too_long_is_one_sentence() -> None:
    with pytest.raises(SpecError, match="cannot be read"):
        load_spec("a" * 5000)


def test_secrets_are_in_no_message() -> None:
    text = GOOD.replace(
        "  url: in/*.parquet",
        "  url: s3://me:canary@bucket/x\n"
        "  format: https://me:canary@bucket/x\n"
        "  storage_options: {key: canary, list: [{password: [canary]}], url: 's3://me:canary@b', token: canary}\n"
        "  password: canary",
    )
    found = errors(
        text + "secret: {canary: canary}\ncluster: {password: canary}\nalgorithm: {name: mdav, token: canary}\n"
    )
    assert len(found) == 10, found
    assert not any("canary" in line for line in found)


def test_a_key_cannot_break_a_message_into_lines() -> None:
    assert errors(GOOD + '"a\\nb": 1\n')[0].startswith(r"release.yaml:14: a\nb: is not a key the spec knows")
