"""A flow that cleans the work area of a series that no run comes to by itself."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.states import Completed, Failed

from microagg_core.errors import sanitized
from microagg_core.release.audit import prune_audit
from microagg_core.release.cleaning import clean_work, remove_abandoned
from microagg_core.spec.loading import load_spec


@flow(name="microagg-clean", persist_result=False, log_prints=False)
def clean_flow(spec: str, settings: list[str] | None = None) -> Any:
    """Remove the staged rows of failed runs whose time is up, as each run does at its start.

    Args:
        spec: path or URL of the release spec.
        settings: fields of the spec that are set for this run, each as ``path=value``.
    """
    try:
        place = load_spec(spec, settings or ())
        removed, kept = clean_work(place, everything=False)
        remove_abandoned(place, everything=False)
        prune_audit(place)
    except Exception as error:
        safe = sanitized(error, "cleaning")
        return Failed(message=f"exit {safe.exit_code} ({safe.kind}): {safe.message}")
    return Completed(message=f"removed {removed} failed runs, kept {kept} that are not due yet")
