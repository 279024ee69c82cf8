"""Pages of a release: there when it is, the same whoever brings them, mended, verified, and taken back with it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from microagg_core.errors import InternalError, StorageError, TransientStorageError
from microagg_core.release.demands import Demands
from microagg_core.release.manifest import Manifest
from microagg_core.release.page_files import bring_pages
from microagg_core.release.publish import Published, finish, publish
from microagg_core.release.revisions import Tombstone, notice_of, withdraw
from microagg_core.release.verify import verify
from microagg_core.store.layout import LATEST, MANIFEST, ReleaseLayout
from microagg_core.store.objects import Store, canonical_json
from releasing.forging import Forged, failed, look
from releasing.parts import expected_names, facts_for, names_of, publish_tables, safe_tables, stage_parts

FIRST = ReleaseLayout("2026-11-18", "r0001")
README = FIRST.absolute("README.md")
STRICT = Demands(strict=True)
_BACK = Tombstone("erasure", "2026-11-19T02:00:00Z", 1, "2026-11-18/r0002")


def pages_of(manifest: Manifest) -> dict[str, bytes]:
    """Pages that say the moment and the first file, and which software made them."""
    said = f"{manifest.created} {manifest.parts[0].name}".encode()
    return {"README.md": b"# Release " + said, "views.sql": b"-- " + said, "datapackage.json": b"{}"}


def other_pages(manifest: Manifest) -> dict[str, bytes]:
    return {"README.md": b"# Another", "new.html": b"<p>"}


def publish_described(output: Store, work: Store, salt: str = "", **how: Any) -> Published:
    tables = safe_tables(salt)
    facts = facts_for(tables, **({"created": how.pop("created")} if "created" in how else {}))
    return publish(output, facts, stage_parts(work, tables), **{"pages_of": pages_of, **how})


def rewritten(manifest: Manifest) -> Manifest:
    return manifest.model_copy(update={"pages": ()})


def content(output: Store) -> dict[str, bytes]:
    return {name: output.read(name) for name in names_of(output)}


def test_pages_lie_beside_the_manifest_that_names_them(output: Store, work: Store) -> None:
    published = publish_described(output, work)
    manifest = published.manifest
    assert names_of(output) == expected_names(output) and published.warnings == ()
    assert [page.name for page in manifest.pages] == ["README.md", "datapackage.json", "views.sql"]
    for name, data in pages_of(rewritten(manifest)).items():
        assert output.read(FIRST.absolute(name)) == data
    assert manifest.format_version == 3
    report = verify(output.url, output.storage_options, STRICT)
    assert report.passed and report.warnings == () and "pages" in [check.name for check in report.checks]


def test_two_runs_differ_in_pages_only_where_their_manifests_do(disk: Store, work: Store) -> None:
    """The same moment and the same attempt: the same bytes everywhere."""
    there = []
    for folder in ("one", "two"):
        place = Store(disk.url_of(folder), disk.storage_options)
        publish_described(place, work, attempt="0123456789ab")
        there.append(content(place))
    assert there[0] == there[1]


def test_the_same_again_by_other_software_changes_nothing(disk: Store, work: Store) -> None:
    publish_described(disk, work)
    before = content(disk)
    for how in ({"pages_of": other_pages}, {}):
        again = publish_described(disk, work, created="2026-11-19T00:00:00Z", **how)
        assert again.already and again.warnings == () and content(disk) == before


def test_each_revision_has_pages_of_its_own(disk: Store, work: Store) -> None:
    publish_described(disk, work)
    before = disk.read(README)
    publish_described(disk, work, "x", replace=True, pages_of=other_pages)
    assert disk.read(README) == before and disk.read("2026-11-18/r0002/README.md") == b"# Another"
    assert names_of(disk) == expected_names(disk)


def test_what_cannot_be_a_page_stops_before_anything_is_written(disk: Store, work: Store) -> None:
    names = ("manifest.json", "Latest.json", "../x.md", "a/b.md", ".md", "more.csv", "README", "a.b.c")
    bad: list[tuple[dict[str, bytes], type[Exception]]] = [({name: b"x"}, InternalError) for name in names]
    bad += [({"README.md": b""}, InternalError), ({"README.md": b"x", "readme.md": b"y"}, ValueError)]
    for pages, error in bad:
        with pytest.raises(error):
            publish_described(disk, work, pages_of=lambda manifest, pages=pages: pages)
        assert names_of(disk) == []


def _damage(output: Store, name: str, how: str) -> None:
    data = output.read(name)
    output.delete(name)
    if how != "missing":
        output.put(name, {"cut short": data[:-1], "changed": data[:-1] + b"x", "empty": b""}[how])


@pytest.mark.parametrize("which", [("name",), ("written",), ("name", "written")], ids=" and ".join)
def test_what_is_missing_or_damaged_is_put_back(which: tuple[str, ...], output: Store, work: Store) -> None:
    """From the other copy, or made again where that is the same; or it is told."""
    manifest = publish_described(output, work).manifest
    before, page = content(output), manifest.pages[0]
    for how in ("missing", "cut short", "changed", "empty"):
        for name in which:
            _damage(output, FIRST.absolute(getattr(page, name)), how)
        told = publish_described(output, work, pages_of=other_pages)
        if len(which) == 2:
            assert told.already and len(told.warnings) == 1
            assert told.warnings[0].startswith("the page 2026-11-18/r0001/README.md is missing or damaged, and this")
            told = publish_described(output, work)
        assert told.already and told.warnings == () and content(output) == before


def test_whoever_finds_the_release_brings_pages_that_a_dead_run_did_not(disk: Store, work: Store) -> None:
    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish_described(disk, work, on_commit=dies)
    assert README not in names_of(disk)
    report = verify(disk.url_of(FIRST.folder), disk.storage_options)
    assert report.passed and report.warnings[0].startswith("3 pages, or copies of pages, are not there: README.md, ")
    again = publish_described(disk, work, pages_of=other_pages)
    assert again.already and disk.read(README) == pages_of(rewritten(again.manifest))["README.md"]
    assert names_of(disk) == expected_names(disk)


def test_a_page_that_cannot_be_brought_is_no_reason_to_take_back_the_release(
    disk: Store, work: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_if = Store.put_if

    def refused(store: Store, name: str, data: bytes, version: str) -> bool:
        if name == README:
            raise TransientStorageError("it does not answer")
        return put_if(store, name, data, version)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "put_if", refused)
        with pytest.raises(TransientStorageError, match="the pages of 2026-11-18/r0001 were not brought up to date"):
            publish_described(disk, work)
    assert verify(disk.url_of(FIRST.folder), disk.storage_options).passed
    assert publish_described(disk, work).already and names_of(disk) == expected_names(disk)


def test_a_release_of_the_format_before_is_verified_and_finished_without_pages(disk: Store, work: Store) -> None:
    manifest = publish_tables(disk, work, safe_tables()).manifest
    old = {name: value for name, value in json.loads(manifest.to_bytes()).items() if name != "pages"}
    data = canonical_json({**old, "format_version": 2})
    disk.put(FIRST.manifest(), data)
    disk.delete(LATEST)
    again = publish_described(disk, work)
    assert again.already and again.manifest.to_bytes() == data == disk.read(FIRST.manifest())
    assert names_of(disk) == expected_names(disk) and len(names_of(disk)) == 4
    report = verify(disk.url, disk.storage_options, STRICT)
    assert report.passed and report.sha256 == again.manifest.sha256
    disk.put(README, b"a page that no manifest names")
    assert list(failed(verify(disk.url, disk.storage_options, STRICT))) == ["unlisted files"]


def test_a_manifest_that_names_pages_otherwise_is_none(disk: Store, work: Store) -> None:
    release = Forged(disk, publish_described(disk, work))
    page = dict(release.said["pages"][0])
    for fields in (
        {"pages": [{**page, "name": "../README.md"}]}, {"pages": [{**page, "written": page["name"]}]},
        {"pages": [{**page, "written": "data/" + page["written"]}]}, {"pages": [page, page]},
        {"pages": [{**page, "bytes": 0}]}, {"pages": [{**page, "note": "canary"}]}, {"format_version": 2},
    ):  # fmt: skip
        with pytest.raises(StorageError, match="is not a valid release manifest") as refused:
            Manifest.from_bytes(canonical_json({**release.said, **fields}), "here")
        assert "canary" not in refused.value.message


@pytest.fixture
def on_disk(disk: Store, work: Store) -> Forged:
    return Forged(disk, publish_described(disk, work))


def to_link(path: Path) -> None:
    path.symlink_to(path.rename(path.parents[2] / "elsewhere"))


def to_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "forge", [to_link, to_pipe, lambda path: path.write_bytes(b""), lambda path: path.write_bytes(b"canary" * 9)]
)
def test_a_page_that_is_not_what_was_published(forge: Callable[[Path], object], on_disk: Forged) -> None:
    forge(on_disk.path / "README.md")
    report = look(on_disk)
    assert failed(report) == {"pages": "1 pages or copies of pages are not what was published: README.md"}
    assert report.exit_code == 5 and "canary" not in str(report)


def test_a_page_that_is_missing_or_too_many_is_told_and_under_demands_refused(on_disk: Forged) -> None:
    (on_disk.path / "README.md").unlink()
    (on_disk.path / "more.md").write_text("canary")
    report = look(on_disk)
    assert report.passed and [text.split()[0] for text in report.warnings] == ["1", "1"]
    strict = look(on_disk, STRICT)
    assert set(failed(strict)) == {"missing pages", "unlisted files"} and strict.exit_code == 5


def test_a_page_with_another_name(on_disk: Forged, tmp_path: Path) -> None:
    (tmp_path / "another name").hardlink_to(on_disk.path / "README.md")
    assert list(failed(look(on_disk, STRICT))) == ["hard links"]


def test_a_link_in_the_place_of_a_page_is_not_written_through(on_disk: Forged, work: Store, tmp_path: Path) -> None:
    to_link(on_disk.path / "README.md")
    elsewhere = tmp_path / "output" / "2026-11-18" / "elsewhere"
    elsewhere = elsewhere if elsewhere.exists() else next(tmp_path.rglob("elsewhere"))
    elsewhere.write_bytes(b"of somebody")
    with pytest.raises(StorageError, match=r"README.md is a link"):
        publish_described(Store(str(tmp_path / "output")), work)
    assert elsewhere.read_bytes() == b"of somebody"


def test_pages_of_a_withdrawn_release_say_so(output: Store, work: Store) -> None:
    manifest = publish_described(output, work).manifest
    removed = withdraw(output, FIRST, _BACK)
    kept = {FIRST.manifest(), FIRST.withdrawn(), LATEST} | manifest.page_names()
    assert removed == 5 and set(names_of(output)) == kept
    sentence = "2026-11-18/r0001 was withdrawn on 2026-11-19 (erasure), and its data are gone; read 2026-11-18/r0002"
    for name in manifest.page_names():
        assert sentence.encode() in output.read(name)
    assert sentence in json.loads(output.read(FIRST.absolute("datapackage.json")))["withdrawn"]
    before = content(output)
    assert withdraw(output, FIRST, Tombstone("erasure", "2027-01-01T00:00:00Z", 9)) == 0 and content(output) == before
    assert bring_pages(output, manifest, pages_of) == () and content(output) == before
    publish_described(output, work, "x", replace=True)
    assert {name: data for name, data in content(output).items() if name in kept - {LATEST}} == {
        name: data for name, data in before.items() if name != LATEST
    }


def test_a_notice_has_the_format_of_its_page() -> None:
    text = {
        name: notice_of(f"a.{name}", "a <b> & c").decode() for name in ("html", "xml", "json", "sql", "md", "other")
    }
    assert all(notice.endswith("\n") for notice in text.values())
    assert json.loads(text["json"]) == {"withdrawn": "a <b> & c"}
    assert ElementTree.fromstring(text["xml"].encode()).text == "a <b> & c"
    assert "a &lt;b&gt; &amp; c" in text["html"]
    assert all("a <b> & c" in text[name] for name in ("sql", "md", "other"))


def test_a_copy_that_comes_after_the_withdrawal_is_refused(
    output: Store, work: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at a page and the copy of it the release is withdrawn, all of it."""
    put_if = Store.put_if

    def late(store: Store, name: str, data: bytes, version: str) -> bool:
        monkeypatch.setattr(Store, "put_if", put_if)
        withdraw(place, FIRST, _BACK)
        return store.put_if(name, data, version)

    for folder in ("missing", "damaged"):
        place = Store(output.url_of(folder), output.storage_options)
        manifest = publish_described(place, work).manifest
        _damage(place, README, "missing" if folder == "missing" else "changed")
        monkeypatch.setattr(Store, "put_if", late)
        finish(place, manifest, already=True, pages_of=pages_of)
        assert b"was withdrawn" in place.read(README)
        kept = {FIRST.manifest(), FIRST.withdrawn(), LATEST} | manifest.page_names()
        assert set(names_of(place)) == kept


def test_a_manifest_that_cannot_be_read_does_not_keep_data_from_being_taken_back(disk: Store, work: Store) -> None:
    publish_described(disk, work)
    disk.put(f"{FIRST.folder}/{MANIFEST}", b"{")
    assert withdraw(disk, FIRST, _BACK) == 5
    assert not [name for name in names_of(disk) if "/data/" in name or "/pages/" in name]
