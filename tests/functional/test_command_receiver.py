"""``microagg verify`` with demands, ``sign`` and ``keys``: what the operator types, and what the receiver reads."""

from __future__ import annotations

import json
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from command_line import Ended, run_command

from microagg_core.release.minisign import PublicKey
from microagg_core.store.objects import Store
from releasing.parts import publish_tables, safe_tables
from servers.s3_server import Place


@pytest.fixture
def release(tmp_path: Path, work: Store) -> Path:
    publish_tables(Store(str(tmp_path / "output")), work, safe_tables())
    return tmp_path / "output"


def at_once(folder: Path, calls: Sequence[Sequence[str]]) -> list[Ended]:
    """Several commands at the same time: starting Python takes longest."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda call: run_command(*call, cwd=folder), calls))


def line(ended: Ended, check: str) -> str:
    (found,) = [one for one in ended.out.splitlines() if one.split(":")[0].endswith(f" {check}")]
    return found


def test_a_release_from_key_to_receiver(release: Path, tmp_path: Path) -> None:
    made = run_command("keys", "release", cwd=tmp_path)
    assert made.code == 0 and "wrote release.key (keep it secret) and release.pub" in made.out
    assert stat.S_IMODE((tmp_path / "release.key").stat().st_mode) == 0o600
    public = PublicKey.parse((tmp_path / "release.pub").read_text())
    assert f"--public-key {public.line()}" in made.out
    signed = run_command("sign", "output", "--key", "release.key", "--json", cwd=tmp_path)
    said = signed.document()
    assert said["public_key"] == public.line() and said["signature"].endswith("/r0001/manifest.json.minisig")
    demands = ["--k", "3", "--quasi-identifiers", "age", "--blocking", "town", "--rows", "11"]
    whole = ["verify", "output", *demands, "--sha256", said["manifest_sha256"].upper(), "--public-key", "release.pub"]
    by_line = ["verify", "output", "--public-key", public.line()]
    told, document, short = at_once(tmp_path, [whole, [*whole, "--json"], by_line])
    assert told.code == document.code == short.code == 0, told.out + short.err
    assert told.out.splitlines()[0] == f"people 2026-11-18 r0001, manifest with sha256 {said['manifest_sha256']}"
    assert line(told, "signature") == f"ok   signature: by the key {public.name}, over the whole manifest"
    value = document.document()
    assert value["passed"] and value["sha256"] == said["manifest_sha256"] and value["id"] == "2026-11-18"


def test_what_is_wrong_is_said_in_a_sentence_each(release: Path, tmp_path: Path) -> None:
    run_command("keys", "other", cwd=tmp_path)
    (tmp_path / "pub").write_text("hello")
    cases = [
        (["--k", "5"], 4, "FAIL k demanded: k=3 is promised, and k=5 demanded"),
        (["--sha256", "0" * 64], 5, "FAIL digest demanded: the manifest's digest is "),
        (["--public-key", "other.pub"], 5, "FAIL signature: the release is not signed: there is no manifest.json.min"),
        (["--distinct", "code=3"], 4, "FAIL protection of 'code' demanded: 2 combinations do not have at least 3 dist"),
        (["--sha256", "12"], 2, "--sha256: must be the manifest's digest, 64 hexadecimal digits, as the run printed"),
        (["--t", "code"], 2, "--t: 'code' is not COLUMN=NUMBER; write it so"),
        (["--t", "code=0.5,code=0.9"], 2, "--t: 'code' is there twice; name it once"),
        (["--public-key", "pub"], 2, "--public-key: pub is not a public key of minisign; give NAME.pub, or the line"),
        (["--public-key", "RWnone"], 2, "--public-key: 'RWnone' is not a public key of minisign, and no file either"),
        (["--public-key", "."], 2, "--public-key: . is not a file; give that of the public key, or its line"),
    ]
    for (arguments, code, sentence), ended in zip(
        cases, at_once(tmp_path, [["verify", "output", *arguments] for arguments, _, _ in cases]), strict=True
    ):
        assert ended.code == code, (arguments, ended.out, ended.err)
        assert sentence in ended.out + ended.err
        if code == 2:
            ended.assert_refused(2, sentence)


def test_what_is_a_note_is_a_failure_where_anything_is_demanded(release: Path, tmp_path: Path) -> None:
    (release / "2026-11-18/r0001/notes.txt").write_text("canary")
    plain, strict, asked = at_once(
        tmp_path, [["verify", "output"], ["verify", "output", "--strict"], ["verify", "output", "--rows", "11"]]
    )
    assert plain.code == 0 and "note 1 files in " in plain.out
    assert strict.code == asked.code == 5 and "FAIL unlisted files: 1 files in " in strict.out
    assert "canary" not in strict.out


def test_who_signs_looks_first(release: Path, tmp_path: Path) -> None:
    run_command("keys", "release", cwd=tmp_path)
    (part, *_) = (release / "2026-11-18/r0001/data").iterdir()
    part.unlink()
    refused, taken, missing = at_once(
        tmp_path,
        [["sign", "output", "--key", "release.key"], ["keys", "release"], ["sign", "output", "--key", "none.key"]],
    )
    assert refused.code == 5 and "FAIL parts: 1 of 2 parts are missing" in refused.out
    assert not list(release.rglob("*.minisig"))
    taken.assert_refused(2, "release.key exists already; choose another name")
    missing.assert_refused(2, "--key: there is no file none.key; make a key with microagg keys, or with minisign -G")


def test_a_password_comes_from_the_environment(tmp_path: Path) -> None:
    without = run_command("keys", "release", "--password-variable", "SIGNING_PASSWORD", cwd=tmp_path)
    without.assert_refused(2, "--password-variable: the environment has no SIGNING_PASSWORD; set it to the password")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.server
def test_in_a_bucket(s3_bucket: Place, work: Store, tmp_path: Path) -> None:
    output = Store(s3_bucket.url, s3_bucket.storage_options)
    publish_tables(output, work, safe_tables())
    endpoint = ["--endpoint", s3_bucket.storage_options["client_kwargs"]["endpoint_url"]]
    run_command("keys", "release", cwd=tmp_path)
    signed = run_command("sign", s3_bucket.url, "--key", "release.key", *endpoint, cwd=tmp_path)
    assert signed.code == 0, signed.err
    told = run_command("verify", s3_bucket.url, "--public-key", "release.pub", "--json", *endpoint, cwd=tmp_path)
    assert told.code == 0 and json.loads(told.out)["passed"], told.out
