"""Compiling while something else is done, such as the survey."""

from __future__ import annotations

from threading import Event, Thread
from types import TracebackType
from typing import Self

from microagg_core.compiling.ensuring import Say, ensure_compiled

_LOOK_SECONDS = 0.2


class Compiling:
    """What :func:`start_compiling` has begun; as a context, it is given up where the block ends early."""

    def __init__(self, algorithm: str, effort: str | float, k: int | None, say: Say | None) -> None:
        self._cancelled, self._kept = Event(), True
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, args=(algorithm, effort, k, say), daemon=True, name="compiling")
        self._thread.start()

    def _run(self, algorithm: str, effort: str | float, k: int | None, say: Say | None) -> None:
        try:
            self._kept = ensure_compiled(algorithm, effort, k, say=say, cancelled=self._cancelled)
        except BaseException as error:  # raised where it is waited for
            self._error = error

    def wait(self) -> bool:
        """Return, or raise, what :func:`ensure_compiled` would have."""
        while self._thread.is_alive():  # in short steps, so that Ctrl-C is heard
            self._thread.join(_LOOK_SECONDS)
        if self._error is not None:
            raise self._error
        return self._kept

    def cancel(self) -> None:
        """End the child, if it still runs; what it finished is kept."""
        self._cancelled.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cancel()


def start_compiling(algorithm: str, effort: str | float, k: int | None = None, *, say: Say | None = None) -> Compiling:
    """Begin what :func:`ensure_compiled` does, and go on; wait for it before kernels are needed."""
    return Compiling(algorithm, effort, k, say)
