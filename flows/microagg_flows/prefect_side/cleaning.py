"""A flow that cleans the work areas of many series: of those that no run comes to any more, too."""

from __future__ import annotations

from typing import Any

from prefect import flow, get_run_logger
from prefect.states import Completed, Failed

from microagg_core.errors import MicroaggError, sanitized
from microagg_core.spec.loading import load_spec
from microagg_core.steps.cleaning import clean_work


@flow(name="microagg-clean", persist_result=False, log_prints=False)
def clean_flow(specs: list[str], settings: list[str] | None = None) -> Any:
    """Remove the staged rows of failed runs whose time is up, as each run does of its own series.

    Args:
        specs: paths or URLs of release specs.
        settings: fields of the specs that are set for this run, each as ``path=value``.
    """
    log, failed, removed = get_run_logger(), list[MicroaggError](), 0
    for spec in specs:
        try:
            of_this, kept = clean_work(load_spec(spec, settings or ()), everything=False)
            log.info(f"{spec}: removed {of_this} failed runs, kept {kept} that are not due yet")
            removed += of_this
        except Exception as error:
            failed.append(sanitized(error, "cleaning"))
            log.error(f"{spec}: {failed[-1].message}")
    if failed:
        first = failed[0]
        return Failed(message=f"exit {first.exit_code} ({first.kind}): {first.message}")
    return Completed(message=f"removed {removed} failed runs")
