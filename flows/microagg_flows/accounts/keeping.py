"""Outcomes as files: written for this user alone, and set right where a run could not do that itself."""

from __future__ import annotations

import datetime
import json
import os
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from microagg_core.errors import SpecError
from microagg_core.pages.run_results import RUNNING, UNTOLD, UNTOLD_SENTENCE, cure_of
from microagg_core.release.cleaning import is_under_way
from microagg_core.release.step import Run
from microagg_core.store.layout import AUDIT, RUNS, newest_results
from microagg_core.store.objects import Store

#: Every run looks at those before it, so none that is killed stays unseen for long.
_MOST_LOOKED_AT = 8
#: As long as this a run elsewhere may be under way without a key.
_KEYLESS_FOR = datetime.timedelta(hours=1)


def this_process() -> dict[str, Any]:
    """What tells this process from all others, those included that get its number later."""
    return {"host": socket.gethostname(), "number": os.getpid(), "born": psutil.Process().create_time()}


def mark_untold(work: Store, series: str) -> None:
    """Have the outcomes of runs of a series that were killed say so.

    A run that only seemed to be gone writes its own outcome over that when it ends.

    Raises:
        StorageError: the work area cannot be read or written.
    """
    for name in newest_results(work.list(f"{AUDIT}/{RUNS}"), _MOST_LOOKED_AT):
        with suppress(ValueError, KeyError, TypeError, AttributeError):  # damaged, which is as if it were not there
            results = json.loads(work.read(name))
            if (results["series"], results["outcome"]) == (series, RUNNING) and not _may_be_there(work, results):
                told = {"outcome": UNTOLD, "sentence": UNTOLD_SENTENCE, "what_to_do": cure_of(UNTOLD_SENTENCE)}
                work.put_json(name, {**results, **told})


def last_released(work: Store, series: str) -> dict[str, Any] | None:
    """The outcome of the newest run of a series that released something; None where none of the newest did.

    Raises:
        StorageError: the work area cannot be read.
    """
    for name in newest_results(work.list(f"{AUDIT}/{RUNS}"), _MOST_LOOKED_AT):
        with suppress(ValueError, KeyError, TypeError, AttributeError):  # damaged, which is as if it were not there
            results = json.loads(work.read(name))
            if (results["series"], results["outcome"]) == (series, "released"):
                return dict(results)
    return None


def _may_be_there(work: Store, results: dict[str, Any]) -> bool:
    process = results["process"]
    if process["host"] == socket.gethostname():
        return _is_there(process)
    if results["run"]:
        return is_under_way(Run(work, results["run"]))
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(results["started"])
    return age < _KEYLESS_FOR


def _is_there(process: dict[str, Any]) -> bool:
    try:
        return abs(float(psutil.Process(process["number"]).create_time()) - float(process["born"])) < 1.0
    except psutil.Error:
        return False


def write_private(path: Path, data: bytes) -> None:
    """Write a file in one step, for this user alone.

    Raises:
        SpecError: there can be no such file.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(unfinished).replace(path)
        except BaseException:
            Path(unfinished).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SpecError(f"{path} cannot be written ({error.strerror}); name a file in a folder that is there") from None
