"""Signed releases: who signs, what a receiver of a key finds, and what runs and erasures do with a signature."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inputs.people import people
from microagg_core.errors import SpecError, StorageError
from microagg_core.release.demands import Demands
from microagg_core.release.minisign import SecretKey, Signature
from microagg_core.release.publish import Published, publish
from microagg_core.release.revisions import read_release
from microagg_core.release.signature import sign_at
from microagg_core.release.verify import verify
from microagg_core.series.eraser import forget
from microagg_core.spec.loading import canonical, load_spec
from microagg_core.store.layout import MANIFEST, SIGNATURE, ReleaseLayout
from microagg_core.store.objects import Store
from microagg_flows.doctor import Patient
from microagg_flows.doctor.release import look
from microagg_flows.progress import Silence
from releasing.forging import Forged
from releasing.parts import expected_names, facts_for, names_of, safe_tables, stage_parts
from releasing.runs import NOW, run_stages, start, write_release
from releasing.small_series import SmallSeries, atoms

KEY, OTHER = SecretKey.new(), SecretKey.new()


def publish_signed(output: Store, work: Store, salt: str = "", **how: Any) -> Published:
    tables = safe_tables(salt)
    return publish(output, facts_for(tables), stage_parts(work, tables), **{"signing_key": KEY, **how})


def refusal(url: str, key: SecretKey = KEY, options: dict[str, Any] | None = None) -> str | None:
    """Why the signature does not do; None where all is well."""
    report = verify(url, options, Demands(public_key=key.public))
    wrong = [check for check in report.checks if not check.passed]
    if not wrong:
        return None
    assert [check.name for check in wrong] == ["signature"] and report.exit_code == 5
    return wrong[0].detail


def test_a_signed_release_is_as_it_was_but_for_its_signature(output: Store, work: Store) -> None:
    published = publish_signed(output, work)
    signature = published.manifest.layout.signature()
    assert names_of(output) == sorted([*expected_names(output), signature]) and published.warnings == ()
    assert refusal(output.url, options=output.storage_options) is None
    assert Signature.parse(output.read(signature)).comment == "microagg release 2026-11-18 r0001"
    assert verify(output.url, output.storage_options).warnings == ()


def change(name: str, old: bytes, new: bytes) -> Callable[[Forged], object]:
    def changed(release: Forged) -> None:
        data = release.folder.read(name)
        assert old in data
        release.folder.put(name, data.replace(old, new))

    return changed


def as_link(release: Forged) -> None:
    path = release.path / SIGNATURE
    path.symlink_to(path.rename(release.path.parents[2] / "elsewhere"))


def as_pipe(release: Forged) -> None:
    (release.path / SIGNATURE).unlink()
    os.mkfifo(release.path / SIGNATURE)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("forge", "sentence"),
    [
        (change(MANIFEST, b"12:00:00Z", b"12:00:01Z"), "manifest.json.minisig does not fit, by the key"),
        (change(SIGNATURE, b"r0001", b"r0002"), "manifest.json.minisig has a trusted comment that the key"),
        (change(SIGNATURE, b"trusted comment: m", b"t: m"), "manifest.json.minisig is not a signature of minisign"),
        (lambda release: release.folder.put(SIGNATURE, b""), "manifest.json.minisig is not a signature of minisign"),
        (lambda release: release.folder.put(SIGNATURE, OTHER.sign(release.folder.read(MANIFEST), "")),
         "manifest.json.minisig is by the key"),
        (as_link, "manifest.json.minisig is a link or no file at all"),
        (as_pipe, "manifest.json.minisig is a link or no file at all"),
    ],
    ids=["manifest", "comment", "damaged", "empty", "another key", "link", "pipe"],
)  # fmt: skip
def test_a_signature_that_does_not_do(
    forge: Callable[[Forged], object], sentence: str, disk: Store, work: Store
) -> None:
    release = Forged(disk, publish_signed(disk, work))
    forge(release)
    said = refusal(disk.url)
    assert said is not None and said.startswith(sentence)


def test_who_publishes_again_mends_the_signature(output: Store, work: Store) -> None:
    name = publish_signed(output, work).manifest.layout.signature()
    right = output.read(name)
    for harm in (lambda: output.delete(name), lambda: output.put(name, b"damaged")):
        harm()
        again = publish_signed(output, work)
        assert again.already and again.warnings == () and output.read(name) == right


def test_the_signature_of_somebody_else_stays_until_it_is_replaced(disk: Store, work: Store) -> None:
    publish_signed(disk, work)
    again = publish_signed(disk, work, signing_key=OTHER)
    assert again.already and len(again.warnings) == 1
    assert again.warnings[0].startswith("2026-11-18/r0001 is signed with the key ")
    assert refusal(disk.url, options=disk.storage_options) is None
    release = read_release(disk.url, disk.storage_options)
    sign_at(disk.url, disk.storage_options, OTHER, release.sha256)
    assert refusal(disk.url, OTHER, disk.storage_options) is None
    with pytest.raises(StorageError, match="changed while it was verified; sign again"):
        sign_at(disk.url, disk.storage_options, OTHER, "0" * 64)


def test_what_a_dead_attempt_signed_is_replaced_by_who_publishes(output: Store, work: Store) -> None:
    def die(manifest: object) -> None:
        raise KeyboardInterrupt

    layout = publish_signed(output, work, "first").manifest.layout
    later = ReleaseLayout(layout.id, "r0002")
    output.put(later.signature(), OTHER.sign(b"a manifest that never came", ""))
    with pytest.raises(KeyboardInterrupt):
        publish_signed(output, work, replace=True, before_commit=die)
    assert publish_signed(output, work, replace=True).manifest.layout == later
    assert refusal(output.url, options=output.storage_options) is None
    assert refusal(output.url_of(layout.folder), options=output.storage_options) is None, "the one before is kept too"


def keep_key(folder: Path, key: SecretKey = KEY, rights: int = 0o600) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "release.key"
    path.write_bytes(key.to_bytes(None))
    path.chmod(rights)
    return {"url": "output", "sign": {"key_file": path.name}}


def test_a_spec_has_its_releases_signed(tmp_path: Path) -> None:
    path = write_release(tmp_path, [people(200)], output=keep_key(tmp_path))
    first = run_stages(start(path))
    assert refusal(str(tmp_path / "output")) is None
    assert first.published is not None and repr(KEY.seed) not in repr(first)
    (signature,) = (tmp_path / "output").rglob("*.minisig")
    right = signature.read_bytes()
    signature.unlink()
    again = run_stages(start(path))
    assert again.published is not None and again.published.already and signature.read_bytes() == right


def test_a_key_that_is_not_there_is_said_before_the_work(tmp_path: Path) -> None:
    path = write_release(tmp_path, [people(200)], output=keep_key(tmp_path, rights=0o644))
    with pytest.raises(SpecError, match=r"output.sign.key_file: others can read .*; chmod 600"):
        run_stages(start(path))
    assert not (tmp_path / "work").exists() and not (tmp_path / "output").exists()


def test_who_signs_decides_nothing_of_the_content(tmp_path: Path) -> None:
    plain = load_spec(str(write_release(tmp_path, [people(20)])))
    signed = load_spec(str(write_release(tmp_path, [people(20)], output=keep_key(tmp_path))))
    assert signed.output.sign is not None and signed.output.sign.key_file == str(tmp_path / "release.key")
    assert canonical(plain) == canonical(signed)


def test_the_doctor_looks_at_the_key(tmp_path: Path) -> None:
    def said() -> list[str]:
        spec = load_spec(str(tmp_path / "release.yaml"))
        return [finding.line() for finding in look(Patient(spec, "one", NOW, Silence()))]

    write_release(tmp_path, [people(200)], output=keep_key(tmp_path))
    assert any(f"signed with the key {KEY.public.name}" in line for line in said())
    (tmp_path / "release.key").chmod(0o640)
    assert any("others can read" in line for line in said())


def test_what_a_spec_may_not_say_of_a_key(tmp_path: Path) -> None:
    refused_keys: dict[str, dict[str, Any]] = {
        "output.sign.key_file: lies inside the output, where readers could see": {"key_file": "output/release.key"},
        "output.sign.key_file: must be the path of a file on the machine that": {"key_file": "s3://bucket/key"},
        "must be the name of a variable of the environment": {"key_file": "k", "password_variable": "my canary"},
        "looks like a credential, and a spec must not hold one": {"key_file": "k", "password": "canary"},
        "output.sign.key_file: ": {},
    }
    for sentence, sign in refused_keys.items():
        path = write_release(tmp_path, [people(20)], output={"url": "output", "sign": sign})
        with pytest.raises(SpecError, match=sentence) as refused:
            load_spec(str(path))
        assert "canary" not in refused.value.message


def test_what_is_published_again_without_somebody_is_signed(tmp_path: Path) -> None:
    output = keep_key(tmp_path)
    series = SmallSeries(tmp_path, atoms(leavers="withhold"), {"output": output})
    series.night(range(40), 0)
    series.night(range(60), 1)
    now = datetime.datetime(2026, 11, 19, 3, 0, tzinfo=datetime.UTC)
    assert forget(str(series.path), series.units([7]), True, now).done
    release = read_release(str(tmp_path / "output"))
    assert release.manifest.layout.folder == "day-1/r0002" and refusal(str(tmp_path / "output")) is None
    assert (tmp_path / "output/day-1/r0001" / SIGNATURE).exists(), "of a withdrawn revision the manifest stays too"
