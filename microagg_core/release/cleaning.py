"""Cleaning: rows of runs that died go at once, those of runs that failed when their time is up; the audit stays.

How old a run's rows are is read from the run's sign of life, which a run that is under way renews, and which says when
it ended, and which process gives it; where there is none that can be read, from when its objects were last written. No
run that may be under way is ever cleaned by another: one without an end counts as alive for an hour after its last
sign, unless it is certain that its process is gone.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import threading
from collections.abc import Callable
from types import TracebackType

from microagg_core.errors import MicroaggError, TransientStorageError
from microagg_core.release.audit import prune_audit
from microagg_core.release.context import work_store
from microagg_core.release.pieces import read_sealed, sealed
from microagg_core.release.step import Run, runs_in
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.disk import is_gone, this_process
from microagg_core.store.failures import impatient
from microagg_core.store.layout import AUDIT, PROBES, SERIES
from microagg_core.store.objects import Store, canonical_json

_SIGN_EVERY_SECONDS = 300.0
_ALIVE_FOR = datetime.timedelta(hours=1)
#: How far ahead another machine's clock may be.
_CLOCKS_DIFFER = datetime.timedelta(minutes=5)


class Running:
    """Signs of life of one run, while the block lasts; :meth:`begin` says which run it is.

    Args:
        goes_on: whether others go on with the run when the block has ended: it counts as alive for as long as a run
            without an end does.
    """

    def __init__(self, goes_on: bool = False) -> None:
        self.goes_on = goes_on
        self._run: Run | None = None
        self._over = threading.Event()
        self._signing = threading.Lock()

    def begin(self, run: Run) -> None:
        """The run is known now, and alive."""
        self._run = run
        _sign(run, ended=False, process=self._process)

    @property
    def _process(self) -> str | None:
        return None if self.goes_on else this_process()

    def end(self) -> None:
        """Stop giving signs: the run's folder is about to go."""
        with self._signing:
            self._run = None

    def __enter__(self) -> Running:
        # A thread of the flow: when the process dies, so does the sign.
        threading.Thread(target=self._renew, name="sign-of-life", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._over.set()
        # A store that does not answer would keep the user waiting for nothing.
        if not self.goes_on and not isinstance(error, TransientStorageError):
            self._sign(ended=True)

    def _renew(self) -> None:
        while not self._over.wait(_SIGN_EVERY_SECONDS):
            self._sign(ended=False)

    def _sign(self, ended: bool) -> None:
        # A sign that cannot be given is no trouble of the run: the next one may, and without any it counts as failed.
        with self._signing, contextlib.suppress(MicroaggError), impatient():
            if self._run is not None and (ended or not self._over.is_set()):
                _sign(self._run, ended, self._process)


def _sign(run: Run, ended: bool, process: str | None) -> None:
    sign = {"at": datetime.datetime.now(datetime.UTC).isoformat(), "ended": ended, "process": process}
    run.work.put(run.layout.sign_of_life(), sealed(canonical_json(sign)))


def is_under_way(run: Run) -> bool:
    """Whether a run may still be going on: it has not ended, its process is not gone, and its sign is no hour old.

    A sign from the future is that of a clock which was set back since, and says nothing.
    """
    sign = read_sealed(run.work, run.layout.sign_of_life())
    if sign is None:
        return False
    value = json.loads(sign)
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(value["at"])
    is_recent = -_CLOCKS_DIFFER < age < _ALIVE_FOR
    return not value["ended"] and is_recent and not is_gone(value.get("process") or "")


def clean_work(
    spec: ReleaseSpec, everything: bool, now: datetime.datetime | None = None, own_run: str = ""
) -> tuple[int, int]:
    """Remove what runs that died left in the work area, and those that failed ``work.keep.failed_days`` ago.

    With ``everything`` also what is not due, runs that are under way included; never ``own_run``, the run that asks.
    Returns how many runs were removed, and how many stay because their time is not up.
    """
    work = work_store(spec)
    now = now or datetime.datetime.now(datetime.UTC)
    keep = datetime.timedelta(days=spec.work.keep.failed_days)
    removed = kept = 0
    for run in runs_in(work):
        if run.key != own_run and (everything or _is_due(run, keep, now)):
            run.remove()
            removed += 1
        else:
            kept += 1
    return removed, kept


def remove_abandoned(spec: ReleaseSpec, everything: bool) -> int:
    """Remove files that killed writers never completed, from the output and what stays in the work area."""
    work, output = work_store(spec), Store(spec.output.url, dict(spec.output.storage_options))
    places = (*((work, name) for name in (AUDIT, SERIES, PROBES)), (output, ""))
    return sum(store.remove_abandoned(name, everything=everything) for store, name in places)


def clean_due(spec: ReleaseSpec, say: Callable[[str], None], own_run: str = "") -> None:
    """Clean what is due, as every run does at its start; trouble with it is told, and is no reason to stop."""
    try:
        removed, _ = clean_work(spec, everything=False, own_run=own_run)
        remove_abandoned(spec, everything=False)
        prune_audit(spec)
    except MicroaggError as error:
        say(f"the work area was not cleaned of failed runs: {error.message}")
    else:
        if removed:
            say(f"removed {removed} failed runs from the work area, as their time was up")


def _is_due(run: Run, keep: datetime.timedelta, now: datetime.datetime) -> bool:
    sign = read_sealed(run.work, run.layout.sign_of_life())
    if sign is not None:
        value = json.loads(sign)
        age = now - datetime.datetime.fromisoformat(value["at"])
        if value["ended"]:
            return age >= keep
        process = value.get("process")
        if process is None:  # calls that go on with each other's work, and have no process in common
            return age >= max(keep, _ALIVE_FOR)
        return is_gone(process) or age >= _ALIVE_FOR
    changed = run.last_change()
    if changed is None:  # an object store may show a folder for a while after all is gone
        return False
    return now - datetime.datetime.fromtimestamp(changed, datetime.UTC) >= max(keep, _ALIVE_FOR)
