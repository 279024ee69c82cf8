"""Days that a series has no release of, released one after the other, as the command and a scheduled run do it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from microagg_core.errors import MicroaggError, SpecError
from microagg_core.release.cleaning import clean_due
from microagg_core.release.context import work_store
from microagg_core.release.revisions import committed_manifests
from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import AuditLayout
from microagg_core.store.objects import Store
from microagg_flows.releasing import Order


def standing_of(spec: ReleaseSpec, days: Iterable[datetime.date]) -> Iterator[tuple[str, bool]]:
    """Find for each day the id of its release, and whether it is published with nothing left to do."""
    if spec.id != "date":
        raise SpecError(f"id: is {spec.id!r}, so no day can be missing; days are known where the spec has id: date")
    output, work = Store(spec.output.url, dict(spec.output.storage_options)), work_store(spec)
    for day in days:
        committed = committed_manifests(output, day.isoformat())
        # The audit comes last: a run that was stopped before it is made again, which makes nothing new.
        is_done = bool(committed) and work.exists(AuditLayout(day.isoformat(), committed[-1].revision).digests())
        yield day.isoformat(), is_done


def backfill(
    order: Order, days: Iterable[datetime.date], make: Callable[[Order], object], say: Callable[[str, str], object]
) -> None:
    """Release the days that are missing, in order, up to the first that fails; ``say`` is told what each is now."""
    spec = load_spec(order.spec, order.settings)
    for day, is_done in standing_of(spec, days):
        if is_done:
            say(day, "published already")
            continue
        try:
            make(replace(order, id=day))
        except MicroaggError as error:
            raise type(error)(f"{day}: {error.message}") from None
        say(day, "published")
    # A run that was killed once its release was out left rows which no run comes to by itself.
    clean_due(spec, lambda _: None)
