"""A published release made again, apart, up to the gate: for ``microagg risk``, and for what else its audit lacks.

The same spec, data and seed make the same bytes: so a release can be made again, up to the gate, and measured in full.
That happens in a folder of its own below the runs of the work area, with a ledger of its own, so that nothing of the
series is touched; what a killed call leaves there is cleaned as a failed run is.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from microagg_core.errors import SpecError, StorageError
from microagg_core.pages.risk_report import is_complete
from microagg_core.release.manifest import Manifest
from microagg_core.release.publish import new_attempt
from microagg_core.release.revisions import read_release
from microagg_core.release.steps.audit import read_risk, write_risk
from microagg_core.release.steps.publishing import meant_moment, settled_spec, staged_parts
from microagg_core.release.steps.work import work_store
from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import RUNS
from microagg_core.store.urls import join_url
from microagg_flows.clusters import executor_for
from microagg_flows.progress import Progress
from microagg_flows.release import Release, new_release
from microagg_flows.stages import run_until


@dataclass(frozen=True)
class ReleaseRisk:
    """The risk of a published release, and whether every record was asked for it."""

    manifest: Manifest
    figures: dict[str, Any]

    def document(self) -> dict[str, Any]:
        """For programs, the release first."""
        return {"id": self.manifest.id, "revision": self.manifest.revision, **self.figures}


def risk_of_release(spec_path: str, url: str | None, progress: Progress, settings: Sequence[str] = ()) -> ReleaseRisk:
    """The risk of a published release of a spec, of which every record is asked where that can be.

    Args:
        spec_path: path or URL of the release spec.
        url: of the release, as for verify; None: the newest one in the spec's output.
        progress: where the user looks.
        settings: fields of the spec that are set for once.

    Raises:
        SpecError: the release is none of this spec's.
        StorageError: there is no release, or it comes out otherwise than it was published.
    """
    spec = load_spec(spec_path, settings)
    manifest = published_release(spec, url)
    kept = read_risk(work_store(spec), manifest)
    if kept is not None and (is_complete(kept) or not can_be_made_again(manifest)):
        return ReleaseRisk(manifest, kept)
    if not can_be_made_again(manifest):
        raise StorageError(
            f"the audit has no risk of release {manifest.id} {manifest.revision}, and a night of a series cannot be "
            "made again by itself; restore the audit"
        )
    return ReleaseRisk(manifest, _measured_again(spec, manifest, progress))


def published_release(spec: ReleaseSpec, url: str | None) -> Manifest:
    """The manifest of a release of a spec: that at a URL, or the newest.

    Raises:
        SpecError: the release is none of this spec's.
        StorageError: there is none.
    """
    manifest = read_release(url or spec.output.url, dict(spec.output.storage_options)).manifest
    if manifest.name != spec.name:
        raise SpecError(
            f"--release: is a release of {manifest.name!r}, and the spec is that of {spec.name!r}; name another"
        )
    return manifest


def can_be_made_again(manifest: Manifest) -> bool:
    """Whether a release is what its spec makes of its input, and of no nights before."""
    return manifest.series is None or manifest.series.mode == "independent"


def _measured_again(spec: ReleaseSpec, manifest: Manifest, progress: Progress) -> dict[str, Any]:
    """Measure in full, and have the audit keep that."""
    work = work_store(spec)
    with made_again(spec, manifest, progress, risk="full") as release:
        write_risk(work, manifest, release.measured.risk)
        figures = read_risk(work, manifest)
        return figures if figures is not None else release.measured.risk.figures


@contextmanager
def made_again(spec: ReleaseSpec, manifest: Manifest, progress: Progress, *, risk: str) -> Iterator[Release]:
    """A published release, made again up to what is measured of it; its rows are there while the block lasts.

    Args:
        spec: that it is one of.
        manifest: its own.
        progress: where the user looks.
        risk: how many records are asked, as in the spec.

    Raises:
        StorageError: it comes out otherwise than it was published.
    """
    made = datetime.datetime.fromisoformat(manifest.created)
    settled = settled_spec(spec, manifest.id, made)
    settled = settled.model_copy(update={"k": manifest.k, "seed": manifest.seed, "risk": risk})
    with made_aside(settled, manifest.id, meant_moment(spec, manifest.id, made), progress) as release:
        _refuse_other(release, manifest)
        yield release


@contextmanager
def made_aside(spec: ReleaseSpec, identity: str, moment: datetime.datetime, progress: Progress) -> Iterator[Release]:
    """A release, made up to what is measured of it in a work area of its own, which goes at the end of the block."""
    folder = f"{RUNS}/risk-{new_attempt()}"
    url = join_url(spec.work.url, folder)
    aside = spec.model_copy(update={"work": spec.work.model_copy(update={"url": url})})
    try:
        with executor_for(aside, progress) as workers:
            release = new_release(aside, workers, identity, True, moment)
            release.ignore_published = release.rebuilding = True
            run_until("measure", release)
            yield release
    finally:
        work_store(spec).delete_all(folder)


def _refuse_other(release: Release, manifest: Manifest) -> None:
    """Stop where the files are not those that were published.

    Raises:
        StorageError: what may be the cause.
    """
    again = sorted(part.sha256 for part in staged_parts(release.work, release.checked))
    if again != sorted(part.sha256 for part in manifest.parts):
        raise StorageError(
            f"release {manifest.id} {manifest.revision} comes out otherwise than it was published, so it cannot "
            "be measured again; its input, the spec or the software has changed since"
        )
