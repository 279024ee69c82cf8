"""Publishing, on a disk and on a real S3 server: beside rivals at the worst moments, and in stores that break rules."""

from __future__ import annotations

import json
import multiprocessing
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from microagg_core.errors import StorageError
from microagg_core.release.publish import Upload, probe_conditional_create, publish, upload_in_turn
from microagg_core.release.revisions import (
    Tombstone,
    committed_manifests,
    newest,
    parse_latest,
    update_latest,
    withdraw,
)
from microagg_core.release.verify import verify
from microagg_core.store.layout import LATEST, ReleaseLayout, release_order
from microagg_core.store.objects import Store
from microagg_core.store.urls import is_local
from releasing.parts import (
    expected_names,
    facts_for,
    names_of,
    publish_in_process,
    publish_tables,
    safe_tables,
    stage_parts,
    table_of,
)
from servers.s3_server import Answer, Environ, FaultyServer, s3_error
from trouble.meddled import Meddled

ID = "2026-11-18"
FIRST = ReleaseLayout(ID, "r0001")


def nothing_left(output: Store) -> bool:
    """No object; and no folder, where there are such things."""
    return names_of(output) == [] and (not is_local(output.url) or list(Path(output.url).iterdir()) == [])


def test_a_first_release(output: Store, work: Store) -> None:
    published = publish_tables(output, work, safe_tables())
    assert not published.already and published.manifest.revision == "r0001"
    assert published.manifest_url == output.url_of(FIRST.manifest())
    assert names_of(output) == expected_names(output)
    assert len(names_of(output)) == 4
    latest = json.loads(output.read(LATEST))
    assert latest == {"id": ID, "revision": "r0001", "manifest": f"{ID}/r0001/manifest.json"}
    assert verify(output.url, output.storage_options).passed


def test_another_content_needs_replace(output: Store, work: Store) -> None:
    publish_tables(output, work, safe_tables())
    before = names_of(output)
    with pytest.raises(StorageError, match=rf"release {ID} is already published .* use --replace") as caught:
        publish_tables(output, work, safe_tables("x"))
    assert caught.value.exit_code == 5 and names_of(output) == before
    replaced = publish_tables(output, work, safe_tables("x"), replacing=True)
    assert replaced.manifest.revision == "r0002" and replaced.latest == f"{ID}/r0002/manifest.json"
    again = publish_tables(output, work, safe_tables("x"), replacing=True)
    assert again.already and [manifest.revision for manifest in committed_manifests(output, ID)] == ["r0001", "r0002"]
    with pytest.raises(StorageError, match="use --replace"):
        publish_tables(output, work, safe_tables())  # what was replaced does not come back unasked
    assert names_of(output) == expected_names(output)


def test_the_same_bytes_with_another_promise_are_another_release(output: Store, work: Store) -> None:
    publish_tables(output, work, safe_tables())
    with pytest.raises(StorageError, match="use --replace"):
        publish_tables(output, work, safe_tables(), k=2)


def test_a_part_that_is_not_what_the_gate_checked_is_not_published(output: Store, work: Store) -> None:
    parts = stage_parts(work, safe_tables())
    longer = replace(parts[1], bytes=parts[1].bytes + 1)
    work.put(parts[1].name, work.read(parts[1].name)[:-1] + b"x")
    for second in (parts[1], longer):
        with pytest.raises(StorageError, match="is not what the gate checked"):
            publish(output, facts_for(safe_tables()), [parts[0], second])
        assert nothing_left(output)


def test_what_failed_half_way_leaves_nothing(output: Store, work: Store) -> None:
    def upload_one(out: Store, uploads: Sequence[Upload]) -> None:
        upload_in_turn(out, uploads[:1])
        raise failure("half way")

    for failure in (KeyboardInterrupt, StorageError, RuntimeError):
        with pytest.raises(failure, match="half way"):
            publish(output, facts_for(safe_tables()), stage_parts(work, safe_tables()), upload_all=upload_one)
        assert nothing_left(output)


def test_leftovers_of_killed_runs_go_when_the_revision_is_committed(output: Store, work: Store) -> None:
    output.put(FIRST.part(0, "ef" * 32, "0123456789ab", "parquet"), b"another anonymization of the same people")
    output.put(FIRST.probe("0123456789ab"), b"first")
    output.put(f"{FIRST.data()}/.f00.unfinished", b"half a part")
    output.put("other-id/r0001/data/part-00000-efefefefefefefef.parquet", b"not ours")
    publish_tables(output, work, safe_tables())
    left = sorted([*expected_names(output), "other-id/r0001/data/part-00000-efefefefefefefef.parquet"])
    assert names_of(output) == left
    output.put(FIRST.part(0, "ef" * 32, "0123456789ab", "parquet"), b"an upload whose run has ended")
    assert publish_tables(output, work, safe_tables()).already
    assert names_of(output) == left


def test_what_is_missing_or_damaged_of_a_committed_release_is_put_back(output: Store, work: Store) -> None:
    published = publish_tables(output, work, safe_tables())
    name = sorted(published.manifest.part_names())[0]
    data = output.read(name)
    for left in (None, data[:-1], data[:-1] + b"x"):
        output.delete(name)
        if left is not None:
            output.put(name, left)
        output.delete(LATEST)
        again = publish_tables(output, work, safe_tables(), created="2026-11-19T00:00:00Z")
        assert again.already and again.manifest == published.manifest
        assert output.read(name) == data
        assert names_of(output) == expected_names(output)
    assert verify(output.url, output.storage_options).passed


def test_a_damaged_manifest_is_not_overwritten(output: Store, work: Store) -> None:
    publish_tables(output, work, safe_tables())
    output.put(FIRST.manifest(), b"{")
    with pytest.raises(StorageError, match="is not a valid release manifest"):
        publish_tables(output, work, safe_tables())
    assert len(names_of(output)) == 4


def test_an_upload_that_fails_because_a_rival_won_is_a_lost_race(output: Store, work: Store) -> None:
    def lose_the_race(out: Store, uploads: Sequence[Upload]) -> None:
        publish_tables(out, work, safe_tables("theirs"))
        raise StorageError("the folder went away")

    with pytest.raises(StorageError, match="another run published revision r0001"):
        publish(output, facts_for(safe_tables()), stage_parts(work, safe_tables()), upload_all=lose_the_race)
    assert names_of(output) == expected_names(output)


def test_what_goes_missing_between_upload_and_commit_is_put_back(output: Store, work: Store) -> None:
    def robbed(out: Store, uploads: Sequence[Upload]) -> None:
        upload_in_turn(out, uploads)
        out.delete(uploads[0].target)

    publish(output, facts_for(safe_tables()), stage_parts(work, safe_tables()), upload_all=robbed)
    assert verify(output.url, output.storage_options).passed


def test_what_a_damaged_release_shares_with_another_is_put_back_and_the_rest_is_told(
    output: Store, work: Store
) -> None:
    first, second = safe_tables()
    published = publish_tables(output, work, [first, second])
    for name in published.manifest.part_names():
        output.delete(name)
    other = table_of([9.0] * 4, ["z"] * 4, ["q"] * 4)
    with pytest.raises(StorageError, match=r"already published .*, 1 of its 2 files are missing .*; use --replace"):
        publish_tables(output, work, [first, other])
    assert len(output.list(FIRST.data())) == 1
    publish_tables(output, work, [first, second])
    assert verify(output.url, output.storage_options).passed


def test_an_interrupt_after_the_commit_takes_nothing_back(output: Store, work: Store) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    heard: list[bool] = []
    meddled = Meddled(output.url, output.storage_options, after_create=interrupt)
    with pytest.raises(KeyboardInterrupt):
        publish(
            meddled,
            facts_for(safe_tables()),
            stage_parts(work, safe_tables()),
            on_commit=lambda manifest, ours: heard.append(ours),
        )
    assert heard == [True]
    assert verify(output.url_of(ID), output.storage_options).passed
    assert publish_tables(output, work, safe_tables()).already
    assert names_of(output) == expected_names(output)


def test_two_processes_race_for_one_id(output: Store, work: Store) -> None:
    """Once with the same content, once with different."""
    context = multiprocessing.get_context("spawn")
    start, answers = context.Barrier(2), context.Queue()
    for release_id, salts in (("same", ["mine", "mine"]), ("different", ["mine", "theirs"])):
        racers = [
            context.Process(target=publish_in_process, args=(output, work, release_id, salt, start, answers))
            for salt in salts
        ]
        for racer in racers:
            racer.start()
        outcomes = [answers.get(timeout=120) for _ in racers]
        for racer in racers:
            racer.join()
        endings = sorted((ending for _, ending in outcomes), key=lambda ending: ending == "published")
        if release_id == "same":
            assert endings in (["already", "published"], ["published", "published"])
        else:
            assert endings[1] == "published" and ("another run" in endings[0] or "already published" in endings[0])
            winner = next(salt for salt, ending in outcomes if ending == "published")
            codes = [p.sha256 for p in stage_parts(work, safe_tables(winner))]
            assert [p.sha256 for p in committed_manifests(output, release_id)[0].parts] == codes
        assert verify(output.url_of(release_id), output.storage_options).passed
    assert names_of(output) == expected_names(output)


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


def test_a_damaged_or_orphaned_latest_is_repaired(output: Store, work: Store) -> None:
    assert update_latest(output) is None
    publish_tables(output, work, safe_tables(), release_id="v1")
    output.put("v2/r0001/data/part-00000-efefefefefefefef.parquet", b"still being uploaded")
    output.put("v1/r0002/data/part-00000-efefefefefefefef.parquet", b"still being uploaded")
    output.put(LATEST, b"{")
    assert update_latest(output) == ReleaseLayout("v1", "r0001") == parse_latest(output.read(LATEST))
    gone = ReleaseLayout("v2", "r0001")
    output.put_json(LATEST, {"id": gone.id, "revision": gone.revision, "manifest": gone.manifest()})
    assert update_latest(output) == ReleaseLayout("v1", "r0001") == parse_latest(output.read(LATEST))
    taken_back = publish_tables(output, work, safe_tables(), release_id="v3").manifest.layout
    withdraw(output, taken_back, Tombstone("erasure", "2026-11-19T02:00:00Z", 1))
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


def new_bucket(server: FaultyServer) -> Store:
    place = server.new_bucket()
    return Store(place.url, place.storage_options)


def ignore_conditions(environ: Environ, forward: Callable[[], Answer]) -> Answer:
    """What some servers do: the conditions of a request count for nothing."""
    environ.pop("HTTP_IF_NONE_MATCH", None)
    environ.pop("HTTP_IF_MATCH", None)
    return forward()


@pytest.mark.server
def test_a_store_that_grants_the_same_creation_twice_is_refused(moto_server: FaultyServer, work: Store) -> None:
    output = new_bucket(moto_server)
    moto_server.fault = ignore_conditions
    with pytest.raises(StorageError, match=r"does not honour conditional creation"):
        probe_conditional_create(output, "probe")
    output.delete("probe")
    with pytest.raises(StorageError, match=r"does not honour conditional creation"):
        publish_tables(output, work, safe_tables())
    assert names_of(output) == []
    moto_server.fault = None
    publish_tables(output, work, safe_tables())
    assert names_of(output) == expected_names(output)


@pytest.mark.server
def test_a_store_without_conditional_requests_is_refused(moto_server: FaultyServer, work: Store) -> None:
    output = new_bucket(moto_server)
    moto_server.fault = lambda environ, forward: (
        s3_error("501 Not Implemented", "NotImplemented") if "HTTP_IF_NONE_MATCH" in environ else forward()
    )
    with pytest.raises(StorageError, match=r"the store refused it \(NotImplemented\)"):
        publish_tables(output, work, safe_tables())
    assert names_of(output) == []


@pytest.mark.server
def test_a_commit_whose_answer_was_lost_is_a_commit(moto_server: FaultyServer, work: Store) -> None:
    """The manifest arrives, the answer does not; the client asks again, and is told that somebody has it."""
    output = new_bucket(moto_server)
    lost: list[int] = []

    def lose_answer(environ: Environ, forward: Callable[[], Answer]) -> Answer:
        answer = forward()
        if environ["REQUEST_METHOD"] == "PUT" and environ["PATH_INFO"].endswith("manifest.json") and not lost:
            lost.append(1)
            return s3_error("500 Internal Server Error", "InternalError")
        return answer

    moto_server.fault = lose_answer
    published = publish_tables(output, work, safe_tables())
    assert lost and not published.already
    assert names_of(output) == expected_names(output)


def removes(environ: Environ) -> bool:
    return environ["REQUEST_METHOD"] == "DELETE" or environ.get("QUERY_STRING", "").startswith("delete")


@pytest.mark.server
def test_what_cannot_be_cleaned_up_is_said(moto_server: FaultyServer, work: Store) -> None:
    output = new_bucket(moto_server)
    denied = s3_error("403 Forbidden", "AccessDenied")

    def break_off(out: Store, uploads: Sequence[Upload]) -> None:
        upload_in_turn(out, uploads)
        moto_server.fault = lambda environ, forward: denied if removes(environ) else forward()
        raise StorageError("the network is down")

    with pytest.raises(StorageError, match=r"the network is down; .*/r0001 could not be removed either"):
        publish(output, facts_for(safe_tables()), stage_parts(work, safe_tables()), upload_all=break_off)
