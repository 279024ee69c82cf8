"""One exception per kind of trouble, each with its exit code.

A message is one sentence for the person who runs the release: what is wrong, where, and what to do. It
never holds a value of a record or a blocking label; an exception raised by a library may hold either, so it
is turned into an :class:`InternalError` that keeps only the place in the code (see :func:`sanitized`).
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

EXIT_DONE = 0
EXIT_INTERRUPTED = 130


class MicroaggError(Exception):
    """Base of every error that a user may meet; ``exit_code`` is what the command line returns."""

    exit_code = 1
    kind = "internal"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[type[MicroaggError], tuple[Any, ...]]:
        # Exceptions travel from workers to the flow; they must come back as what they were.
        return type(self), (self.message,)


class InternalError(MicroaggError):
    """A bug of ours."""

    exit_code = 1
    kind = "internal"


class SpecError(MicroaggError):
    """The release spec, or the way a command was called, is wrong."""

    exit_code = 2
    kind = "spec"


class DataError(MicroaggError):
    """The input cannot be released as it is."""

    exit_code = 3
    kind = "data"


class GateError(MicroaggError):
    """The privacy gate refused what would have been published."""

    exit_code = 4
    kind = "gate"


class StorageError(MicroaggError):
    """A file, bucket or object could not be read, written or trusted."""

    exit_code = 5
    kind = "storage"


class DamagedWorkError(StorageError):
    """Something in the work area is gone or not what was written: the tasks that made it have to make it again.

    ``places`` are their steps and numbers; none where it is not known whose work it is.
    """

    def __init__(self, message: str = "", places: Iterable[tuple[str, int]] = ()) -> None:
        self.places = tuple(dict.fromkeys(places))
        what = "what lies in the work area is not what was written; run again, and it is made again"
        super().__init__(message or what)

    def __reduce__(self) -> tuple[type[DamagedWorkError], tuple[Any, ...]]:
        return type(self), (self.message, self.places)


class InputMissingError(StorageError):
    """No file is where the input is expected: it may not have come yet, so a schedule can wait for it."""

    exit_code = 7
    kind = "missing"


class TransientStorageError(StorageError):
    """The store did not answer; the same request may succeed later."""


class ClusterError(MicroaggError):
    """The Dask cluster cannot do the work, or stopped doing it."""

    exit_code = 6
    kind = "cluster"


class TransientClusterError(ClusterError):
    """The cluster went away while it worked; finished work is kept and a new run goes on from there."""


class InterruptionError(MicroaggError):
    """The user stopped the run, of which there is more to say than that."""

    exit_code = EXIT_INTERRUPTED
    kind = "interrupted"


def _distinct() -> Iterator[type[MicroaggError]]:
    """List an error of each kind and code; of those that share them the general one comes last."""
    yield from StorageError.__subclasses__()
    yield from MicroaggError.__subclasses__()


def of_kind(kind: str, message: str) -> MicroaggError:
    """The error that was told by its kind and message, as a flow's state and a worker's answer do.

    >>> of_kind("data", "the input has no records").exit_code
    3
    """
    kinds = {error.kind: error for error in _distinct()}
    return kinds.get(kind, InternalError)(message)


def of_code(code: int, message: str) -> MicroaggError | None:
    """The error that a command's exit code stands for; None where it stands for none.

    >>> of_code(4, "the ledger is not sound"), of_code(0, "all is well")
    (GateError('the ledger is not sound'), None)
    """
    if code == EXIT_DONE:
        return None
    kinds = {error.exit_code: error for error in _distinct()}
    return kinds.get(code, InternalError)(message)


def sanitized(error: BaseException, doing: str) -> MicroaggError:
    """Turn any exception into one that is safe to show, log and store.

    Errors of ours pass unchanged. Of everything else only the type and the place in the code are kept: the
    message of a library may quote the record it stumbled over.

    >>> sanitized(ValueError("could not convert 'Ms Canary'"), "staging part 3").message
    'a bug: staging part 3 ended with ValueError; please report it with this place: no frames'
    >>> sanitized(ImportError("_tree.so: failed to map segment from shared object"), "staging part 3").message
    'staging part 3 ran out of memory; give each worker more memory or fewer threads'
    """
    if isinstance(error, MicroaggError):
        return error
    # Of what loads code or starts threads, only the words say that memory was wanting.
    if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_ROOM):
        return ClusterError(f"{doing} ran out of memory; give each worker more memory or fewer threads")
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    place = " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames)) or "no frames"
    return InternalError(f"a bug: {doing} ended with {type(error).__name__}; please report it with this place: {place}")


#: How the system, Python and libraries say that there is no room for memory, code or a thread.
_NO_ROOM = ("failed to map", "annot allocate memory", "can't start new thread", "Resource temporarily unavailable")
