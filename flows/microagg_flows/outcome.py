"""What a run that failed or was stopped says when its release is published all the same.

A release is committed when readers find it, and finished when nothing of publishing is left to do. What fails between
the two is a failure that says so; what fails later is a note, because the release is what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from microagg_core.errors import InterruptionError, MicroaggError, sanitized
from microagg_core.store.urls import shown

if TYPE_CHECKING:
    from microagg_flows.release import Release


@dataclass
class Outcome:
    """The release that a block works on, once there is one."""

    release: Release | None = None
    #: What went wrong when the release was finished, in a sentence.
    note: str = ""
    #: An error on its way out says already that the release is published.
    is_told: bool = False

    def clear(self) -> None:
        """Another release begins, of which nothing is known yet."""
        self.release, self.note, self.is_told = None, "", False

    def published(self) -> str:
        """A sentence's beginning where the release is there for readers, else nothing."""
        if self.release is None or self.release.committed is None:
            return ""
        manifest = self.release.committed
        folder = shown(self.release.output.url_of(manifest.layout.folder))
        return f"release {manifest.id} is published in {folder}"

    def is_finished(self) -> bool:
        """Whether nothing of publishing is left to do."""
        return self.release is not None and self.release.published is not None

    def document(self) -> dict[str, Any]:
        """The document of the finished release."""
        from microagg_core.pages.release_report import release_document
        from microagg_core.plain import to_plain

        if self.release is None or self.release.published is None:
            raise RuntimeError("the last stage ended without a release")
        return release_document(self.release.published, to_plain(self.release.outcomes), self.release.page)

    def told(self, error: BaseException) -> MicroaggError:
        """What an error or an interruption that ends a run with a committed release says."""
        if self.is_told and isinstance(error, MicroaggError):
            return error
        self.is_told = True
        if isinstance(error, KeyboardInterrupt):
            return InterruptionError(f"interrupted, but {self.published()}; {_LEFT}")
        safe = sanitized(error, "publishing")
        return type(safe)(f"{self.published()}, but the run failed afterwards ({safe.message}); {_LEFT}")

    def noted(self, error: BaseException) -> str:
        """What an error or an interruption after all of that says."""
        if isinstance(error, KeyboardInterrupt):
            return f"{self.published()}; interrupted while clearing up, which the same command finishes"
        return f"{self.published()}; afterwards: {sanitized(error, 'clearing up').message}"


_LEFT = (
    "run the same command again: it makes nothing new, but finishes what is left (latest.json, the audit, clearing the "
    "work area)"
)
#: What an interruption of a run leaves.
INTERRUPTED = "interrupted; what is finished is kept, and the same command goes on from there"
_current: ContextVar[Outcome | None] = ContextVar("outcome", default=None)


@contextmanager
def observed() -> Iterator[Outcome]:
    """A release made in the block tells how far it is; nested: there is one outcome."""
    outcome = _current.get() or Outcome()
    token = _current.set(outcome)
    try:
        yield outcome
    finally:
        _current.reset(token)


def current() -> Outcome:
    """What is known of the release that is under way here; of none, where nobody observes."""
    return _current.get() or Outcome()


@contextmanager
def telling_if_published() -> Iterator[Outcome]:
    """Whatever ends the block says so where the release is published by then, and what is to be done.

    Where the release is finished, nothing is raised: the outcome has the document, and a note of what happened.

    Raises:
        MicroaggError: of the same class as the block's.
        InterruptionError: instead of a KeyboardInterrupt.
    """
    with observed() as outcome:
        try:
            yield outcome
        except (Exception, KeyboardInterrupt) as error:
            if outcome.is_finished():
                outcome.note = outcome.noted(error)
            elif outcome.published():
                raise outcome.told(error) from None
            else:
                raise
