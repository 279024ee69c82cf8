"""Publications of a series: attempts noted before their first upload, what they left behind, what readers can read.

A record of an attempt is in the ledger before the first object lies at the output, and stays until that is gone. So
whoever comes next knows what a run that died may have left for readers, and removes it before anybody is grouped or
erased.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from microagg_core.errors import StorageError
from microagg_core.plain import from_json, to_plain
from microagg_core.release.cleaning import is_under_way
from microagg_core.release.context import work_store
from microagg_core.release.manifest import Manifest
from microagg_core.release.revisions import committed_revisions_in, read_manifest, unnamed_files
from microagg_core.release.step import Run
from microagg_core.series.generations import Generation, parts_digest
from microagg_core.series.invariants import require
from microagg_core.series.ledger import Ledger, ledger_of
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import ATTEMPTS, ReleaseLayout, attempt_of, digits, is_release_id
from microagg_core.store.objects import Store, canonical_json
from microagg_core.store.urls import shown

#: As long as a run counts as alive without a sign.
_ALIVE_SECONDS = 3600.0


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Attempt:
    """One try to publish the release of a night.

    Attributes:
        name: the digits in the name of each of its objects.
        output: the URL of the output.
        run_key: of the run in whose folder of the work area its signs of life are.
    """

    name: str
    release_id: str
    revision: str
    output: str
    run_key: str


def note_attempt(ledger: Store, attempt: Attempt) -> None:
    ledger.put(_record_name(attempt.name), canonical_json(to_plain(attempt)), durable=True)


def noted_attempts(ledger: Store) -> list[Attempt]:
    """Read all noted attempts.

    >>> noted_attempts(Store("memory://no-ledger-here"))
    []
    """
    attempts = []
    for name in ledger.list(ATTEMPTS):
        try:
            attempts.append(from_json(Attempt, ledger.read(name)))
        except ValueError:
            raise StorageError(
                f"{shown(ledger.url_of(name))} is damaged, so nobody knows what its run left at the output; remove "
                "it, then have microagg clean look for files that no manifest names"
            ) from None
    return attempts


def _record_name(attempt: str) -> str:
    return f"{ATTEMPTS}/{attempt}.json"


def erasure_key(night: int) -> str:
    """Name the run under which an erasure stages files and gives signs of life in the work area."""
    return f"erasure-{digits(night)}"


# --- Removing what died ----------------------------------------------------------------------------------------


def sweep_output(ledger: Ledger, output: Store, work: Store, own_run: str = "") -> int:
    """Remove what attempts that died left where readers could find it, and their records.

    Args:
        ledger: of the series.
        output: where the series is published.
        work: where runs give signs of life.
        own_run: the key of the run that asks; what an earlier try of its own left is of the same groups, and stays
            until it publishes.

    Returns:
        How many files were removed.

    Raises:
        StorageError: another run is publishing, or something cannot be read or removed.
    """
    dead = [attempt for attempt in noted_attempts(ledger.store) if not own_run or attempt.run_key != own_run]
    for attempt in dead:
        if is_under_way(Run(work, attempt.run_key)):
            raise StorageError(
                f"another run of the series {ledger.series} is publishing release {attempt.release_id} in "
                f"{shown(attempt.output)}; run again when it is done, or an hour after it died"
            )
    return _remove(ledger, output, dead)


def sweep_published(ledger: Ledger, output: Store, work: Store, manifest: Manifest) -> None:
    """After a publication, remove what earlier tries left, but for runs under way, which remove their own.

    Raises:
        GateError: the release's folder holds what no manifest names.
    """
    own = {_attempt_in(name) for name in manifest.part_names()}
    attempts = noted_attempts(ledger.store)
    alive = [a for a in attempts if a.name not in own and is_under_way(Run(work, a.run_key))]
    _remove(ledger, output, [attempt for attempt in attempts if attempt not in alive])
    kept = {attempt.name for attempt in alive}
    unnamed = unnamed_files(output, manifest.id)
    names = [name for name in unnamed if _attempt_in(name) not in kept and not (kept and _is_unfinished(name))]
    require("output-named", [f"{len(names)} files of release {manifest.id} are named by no manifest"] if names else [])


def sweep_unknown(output: Store, *, at_once: bool = False, is_all_wanted: bool = True) -> int:
    """Remove files without a record, as runs of earlier versions leave them, and unfinished ones.

    Returns:
        How many files were removed.
    """
    n_abandoned = output.remove_abandoned(everything=at_once)
    names = [name for name in unnamed_files(output) if _attempt_in(name) or _is_unfinished(name)]
    changes = {folder: output.last_change(folder) or 0.0 for folder in {name.rsplit("/", 1)[0] for name in names}}
    due = time.time() - (0.0 if at_once else _ALIVE_SECONDS)
    old = [name for name in names if changes[name.rsplit("/", 1)[0]] <= due]
    if is_all_wanted and len(old) < len(names):
        raise StorageError(
            f"{len(names) - len(old)} files of {shown(output.url)} are named by no manifest, and are not an hour old; "
            "stop whatever publishes there, then have microagg clean --all remove them"
        )
    output.delete_many(old)
    return len(old) + n_abandoned


def clean_output(spec: ReleaseSpec, everything: bool) -> int:
    """Remove from a spec's output what runs that died left there; returns how many files."""
    output = Store(spec.output.url, dict(spec.output.storage_options))
    removed = sweep_output(ledger_of(spec), output, work_store(spec))
    return removed + sweep_unknown(output, at_once=everything, is_all_wanted=False)


def _remove(ledger: Ledger, output: Store, attempts: Iterable[Attempt]) -> int:
    """Remove the files of attempts, but for those that a manifest names, then their records."""
    n = 0
    for attempt in (attempts := list(attempts)):
        place = Store(attempt.output, output.storage_options)
        unnamed = unnamed_files(place, f"{attempt.release_id}/{attempt.revision}")
        names = [name for name in unnamed if _attempt_in(name) == attempt.name]
        place.delete_many(names)
        n += len(names)
    ledger.store.delete_many([_record_name(attempt.name) for attempt in attempts])
    return n


def _is_unfinished(name: str) -> bool:
    return name.endswith(".unfinished")


def _attempt_in(name: str) -> str | None:
    return attempt_of(name.split("/", 2)[-1])


# --- What readers can read -------------------------------------------------------------------------------------


def is_published(ledger: Ledger, output: Store, generation: Generation) -> bool:
    if ledger.is_published(generation.night):
        return True
    manifest = manifest_at(output, generation)
    # The revision of an erasure was drawn for it; another release may have the name of a night's.
    is_same = manifest is not None and (
        generation.kind == "erasure"
        or parts_digest(part.sha256 for part in manifest.parts) == generation.manifest_sha256
    )
    if is_same:
        ledger.note_published(generation.night)
    return is_same


def manifest_at(output: Store, generation: Generation) -> Manifest | None:
    """Read the manifest under the name of a generation's release, which may be another release's."""
    return read_manifest(output, generation.layout) if output.exists(generation.layout.manifest()) else None


def manifest_of(output: Store, generation: Generation) -> Manifest:
    """Read the manifest of a release that the ledger says was published.

    Raises:
        StorageError: it is damaged, or gone with the output.
    """
    manifest = manifest_at(output, generation)
    if manifest is None:
        raise StorageError(
            f"{shown(output.url)} has lost release {generation.release_id} {generation.revision}, which was published "
            "there and whose values are needed again; put the output back from a copy"
        )
    return manifest


def manifests_of(output: Store, series: str) -> Iterator[Manifest]:
    for release_id in filter(is_release_id, output.folders()):
        for revision in committed_revisions_in(output, release_id):
            manifest = read_manifest(output, ReleaseLayout(release_id, revision))
            if manifest.name == series:
                yield manifest


def unknown_releases(ledger: Ledger, output: Store) -> list[Manifest]:
    """List the releases of the series at the output that the ledger does not know."""
    layouts = {generation.layout for generation in ledger.generations() if generation.kind != "void"}
    return [manifest for manifest in manifests_of(output, ledger.series) if manifest.layout not in layouts]


def unknown_in_words(output: Store, unknown: list[Manifest]) -> str:
    return (
        f"the ledger knows nothing of {len(unknown)} releases of {shown(output.url)}, such as "
        f"{unknown[0].layout.folder}: it is an old copy, or its newest nights are gone; restore it, or make it again "
        "with microagg series rebuild"
    )
