"""Where a person can watch a cluster's workers: Dask's dashboard, which a scheduler has that has the package for it."""

from __future__ import annotations

import sys
from typing import Any

import cloudpickle
from distributed import Client

from microagg_flows.accounts.account import current_account
from microagg_flows.progress import Progress

_ANSWER_SECONDS = 10


def tell_dashboard(client: Client, progress: Progress) -> None:
    """Say where the dashboard is, and have the run's account know; where there is none, nothing."""
    link = dashboard_link(client)
    if not link:
        return
    progress.say(f"Dask's dashboard is at {link}")
    if account := current_account():
        account.note_dashboard(link)


def dashboard_link(client: Client) -> str:
    """The address of a scheduler's dashboard; nothing where it has none, or does not say."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        has_pages = client.sync(  # type: ignore[no-untyped-call]
            client.run_on_scheduler, _has_pages, callback_timeout=_ANSWER_SECONDS
        )
        return str(client.dashboard_link or "") if has_pages else ""
    except Exception:  # whatever a scheduler of others answers, its dashboard decides nothing
        return ""
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def _has_pages(dask_scheduler: Any) -> bool:
    """Runs in the scheduler: without the package for pages its server has metrics alone."""
    pages = "distributed.dashboard"
    return any(type(one).__module__.startswith(pages) for one in dask_scheduler.http_application.applications)
