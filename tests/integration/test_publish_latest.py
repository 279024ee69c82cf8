"""latest.json: always a committed release, never an older one; on a disk and on a real S3 server."""

from __future__ import annotations

import threading

from microagg_core.release.revisions import newest, parse_latest, update_latest
from microagg_core.store.layout import LATEST, ReleaseLayout, release_order
from microagg_core.store.objects import Store
from releasing.parts import expected_names, names_of, publish_tables, safe_tables
from trouble.meddled import Meddled


def commit_only(output: Store, work: Store, release_id: str) -> None:
    """A committed release, as one that was killed before it came to latest.json."""
    elsewhere = Store(f"{work.url}-{release_id}")
    manifest = publish_tables(elsewhere, work, safe_tables(), release_id=release_id).manifest
    for name in manifest.part_names():
        output.copy_from(elsewhere, name, name)
    output.create(manifest.layout.manifest(), manifest.to_bytes())


def test_latest_is_the_greatest_and_an_older_release_does_not_take_it_back(output: Store, work: Store) -> None:
    for release_id in ("v9", "v10", "v2"):
        publish_tables(output, work, safe_tables(), release_id=release_id)
    assert parse_latest(output.read(LATEST)) == ReleaseLayout("v10", "r0001") == newest(output)
    publish_tables(output, work, safe_tables("x"), release_id="v9", replacing=True)
    assert parse_latest(output.read(LATEST)) == ReleaseLayout("v10", "r0001")
    publish_tables(output, work, safe_tables("x"), release_id="v10", replacing=True)
    assert parse_latest(output.read(LATEST)) == ReleaseLayout("v10", "r0002")


def test_an_uncommitted_release_is_never_the_latest(output: Store, work: Store) -> None:
    publish_tables(output, work, safe_tables(), release_id="v1")
    output.put("v2/r0001/data/part-00000-efefefefefefefef.parquet", b"still being uploaded")
    output.put("v1/r0002/data/part-00000-efefefefefefefef.parquet", b"still being uploaded")
    assert update_latest(output) == ReleaseLayout("v1", "r0001")


def test_a_damaged_or_orphaned_latest_is_repaired(output: Store, work: Store) -> None:
    assert update_latest(output) is None
    publish_tables(output, work, safe_tables(), release_id="v1")
    output.put(LATEST, b"{")
    assert update_latest(output) == ReleaseLayout("v1", "r0001") == parse_latest(output.read(LATEST))
    gone = ReleaseLayout("v2", "r0001")
    output.put_json(LATEST, {"id": gone.id, "revision": gone.revision, "manifest": gone.manifest()})
    assert update_latest(output) == ReleaseLayout("v1", "r0001") == parse_latest(output.read(LATEST))


def test_a_writer_that_was_held_up_does_not_go_backwards(output: Store, work: Store) -> None:
    """It listed v1 only; before it writes, a rival publishes v2 and names it."""
    commit_only(output, work, "v1")
    seen: list[ReleaseLayout | None] = []
    calls = [0]

    def rival() -> None:
        calls[0] += 1
        if calls[0] == 1:
            publish_tables(output, work, safe_tables(), release_id="v2")
        seen.append(parse_latest(output.read(LATEST)))

    update_latest(Meddled(output.url, output.storage_options, after_listing=rival))
    assert calls[0] >= 2
    assert {*seen, parse_latest(output.read(LATEST))} == {ReleaseLayout("v2", "r0001")}


def test_latest_never_moves_backwards_while_many_publish(output: Store, work: Store) -> None:
    ids = [f"v{i}" for i in range(1, 13)]
    publish_tables(output, work, safe_tables(), release_id="v0")
    seen: list[ReleaseLayout] = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            named = parse_latest(output.read(LATEST)) if output.exists(LATEST) else None
            if named is not None:
                assert output.exists(named.manifest())
                seen.append(named)

    def publish_some(mine: list[str]) -> None:
        for release_id in mine:
            publish_tables(output, work, safe_tables(), release_id=release_id)

    watcher = threading.Thread(target=watch)
    writers = [threading.Thread(target=publish_some, args=(ids[i::4],)) for i in range(4)]
    watcher.start()
    while not seen:
        assert watcher.is_alive()
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    watcher.join()
    keys = [release_order(layout.id, layout.revision) for layout in seen]
    assert keys == sorted(keys) and seen[0].id == "v0"
    assert parse_latest(output.read(LATEST)) == ReleaseLayout("v12", "r0001")
    assert names_of(output) == expected_names(output)
