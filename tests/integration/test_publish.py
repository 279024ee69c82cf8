"""Publishing: on a disk and on a real S3 server, and against rivals at the worst moments."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Sequence
from pathlib import Path

import pytest

from microagg_core.errors import StorageError
from microagg_core.release.publish import Upload, publish, upload_in_turn
from microagg_core.release.revisions import committed_manifests
from microagg_core.release.verify import verify
from microagg_core.store.layout import LATEST, ReleaseLayout
from microagg_core.store.objects import Store
from microagg_core.store.urls import is_local
from releasing.parts import (
    changed,
    expected_names,
    facts_for,
    names_of,
    publish_in_process,
    publish_tables,
    safe_tables,
    stage_parts,
    table_of,
)
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


def test_the_same_again_changes_nothing(output: Store, work: Store) -> None:
    first = publish_tables(output, work, safe_tables())
    before = {name: output.read(name) for name in names_of(output)}
    again = publish_tables(output, work, safe_tables(), created="2026-11-19T00:00:00Z")
    assert again.already and again.manifest == first.manifest
    assert {name: output.read(name) for name in names_of(output)} == before


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


def test_a_part_that_changed_since_the_gate_is_not_published(output: Store, work: Store) -> None:
    parts = stage_parts(work, safe_tables())
    work.put(parts[1].name, work.read(parts[1].name)[:-1] + b"x")
    with pytest.raises(StorageError, match="is not what the gate checked"):
        publish(output, facts_for(safe_tables()), parts)
    assert nothing_left(output)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, StorageError, RuntimeError])
def test_what_failed_half_way_leaves_nothing(output: Store, work: Store, failure: type[BaseException]) -> None:
    def upload_one(out: Store, uploads: Sequence[Upload]) -> None:
        upload_in_turn(out, uploads[:1])
        raise failure("half way")

    with pytest.raises(failure, match="half way"):
        publish(output, facts_for(safe_tables()), stage_parts(work, safe_tables()), upload_all=upload_one)
    assert nothing_left(output)


def test_leftovers_of_killed_runs_go_when_the_revision_is_committed(output: Store, work: Store) -> None:
    output.put(FIRST.part(0, "ef" * 32, "0123456789ab", "parquet"), b"another anonymization of the same people")
    output.put(FIRST.probe("0123456789ab"), b"first")
    output.put(f"{FIRST.data()}/.f00.unfinished", b"half a part")
    output.put("other-id/r0001/data/part-00000-efefefefefefefef.parquet", b"not ours")
    publish_tables(output, work, safe_tables())
    assert names_of(output) == sorted(
        [*expected_names(output), "other-id/r0001/data/part-00000-efefefefefefefef.parquet"]
    )


def test_what_arrived_late_goes_with_the_next_run(output: Store, work: Store) -> None:
    publish_tables(output, work, safe_tables())
    output.put(FIRST.part(0, "ef" * 32, "0123456789ab", "parquet"), b"an upload whose run has ended")
    assert publish_tables(output, work, safe_tables()).already
    assert names_of(output) == expected_names(output)


@pytest.mark.parametrize("damage", ["missing", "cut short", "changed"])
def test_what_is_missing_or_damaged_of_a_committed_release_is_put_back(damage: str, output: Store, work: Store) -> None:
    published = publish_tables(output, work, safe_tables())
    name = sorted(published.manifest.part_names())[0]
    data = output.read(name)
    output.delete(name)
    if damage != "missing":
        output.put(name, data[:-1] if damage == "cut short" else data[:-1] + b"x")
    output.delete(LATEST)
    assert publish_tables(output, work, safe_tables()).already
    assert output.read(name) == data
    assert names_of(output) == expected_names(output)
    assert verify(output.url, output.storage_options).passed


def test_a_damaged_manifest_is_not_overwritten(output: Store, work: Store) -> None:
    publish_tables(output, work, safe_tables())
    output.put(FIRST.manifest(), b"{")
    with pytest.raises(StorageError, match="is not a valid release manifest"):
        publish_tables(output, work, safe_tables())
    assert len(names_of(output)) == 4


# --- rivals at the worst moment ------------------------------------------------------------------------------


def test_the_loser_removes_only_its_own(output: Store, work: Store) -> None:
    """The two share their first part; it is the winner's, and stays."""
    first, second = safe_tables()
    mine, theirs = [first, second], [first, table_of([9.0] * 4, ["z"] * 4, ["q"] * 4)]

    def lose_the_race(out: Store, uploads: Sequence[Upload]) -> None:
        upload_in_turn(out, uploads)
        publish_tables(out, work, theirs)
        upload_in_turn(out, uploads[1:])  # what the winner's tidying took away was still on its way

    with pytest.raises(StorageError, match=rf"another run published revision r0001 of release {ID}"):
        publish(output, facts_for(mine), stage_parts(work, mine), upload_all=lose_the_race)
    assert names_of(output) == expected_names(output)
    assert verify(output.url, output.storage_options).passed


def test_losing_against_the_same_release_is_no_loss(output: Store, work: Store) -> None:
    def lose_the_race(out: Store, uploads: Sequence[Upload]) -> None:
        publish_tables(out, work, safe_tables(), created="2026-11-18T11:59:59Z")
        upload_in_turn(out, uploads)

    parts = stage_parts(work, safe_tables())
    published = publish(output, facts_for(safe_tables()), parts, upload_all=lose_the_race)
    assert published.already and published.manifest.created == "2026-11-18T11:59:59Z"
    assert names_of(output) == expected_names(output)


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


@pytest.mark.parametrize("same", [False, True], ids=["different", "identical"])
def test_two_processes_race_for_one_id(output: Store, work: Store, same: bool) -> None:
    context = multiprocessing.get_context("spawn")
    rounds = ["one", "two"]
    start, answers = context.Barrier(2), context.Queue()
    for release_id in rounds:
        salts = ["mine", "mine" if same else "theirs"]
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
        if same:
            assert endings in (["already", "published"], ["published", "published"])
        else:
            assert endings[1] == "published" and ("another run" in endings[0] or "already published" in endings[0])
            winner = next(salt for salt, ending in outcomes if ending == "published")
            codes = [p.sha256 for p in stage_parts(work, safe_tables(winner))]
            assert [p.sha256 for p in committed_manifests(output, release_id)[0].parts] == codes
    assert names_of(output) == expected_names(output)
    for release_id in rounds:
        assert verify(output.url_of(release_id), output.storage_options).passed


def test_a_part_with_false_promises_is_refused(output: Store, work: Store) -> None:
    parts = stage_parts(work, safe_tables())
    with pytest.raises(StorageError, match="is not what the gate checked"):
        publish(output, facts_for(safe_tables()), [parts[0], changed(parts[1], bytes=parts[1].bytes + 1)])
    assert names_of(output) == []
