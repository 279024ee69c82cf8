"""What a run that failed or was stopped says when its release is published all the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from flows.stages import Release
from microagg_core.errors import InterruptionError, MicroaggError
from microagg_core.storage.urls import shown


@dataclass
class Outcome:
    """The release that a block works on, once there is one."""

    release: Release | None = None

    def published(self) -> str:
        """A sentence's beginning where the release is there for readers, else nothing."""
        if self.release is None or self.release.committed is None:
            return ""
        manifest = self.release.committed
        folder = shown(self.release.output.url_of(manifest.layout.folder))
        return f"release {manifest.id} is published in {folder}"


@contextmanager
def telling_if_published() -> Iterator[Outcome]:
    """Whatever ends the block says so where the release is published by then, and what is to be done.

    Raises:
        MicroaggError: of the same class as the block's.
        InterruptionError: instead of a KeyboardInterrupt.
    """
    outcome = Outcome()
    try:
        yield outcome
    except KeyboardInterrupt:
        if published := outcome.published():
            raise InterruptionError(f"interrupted, but {published}; {_LEFT}") from None
        raise
    except MicroaggError as error:
        if published := outcome.published():
            raise type(error)(f"{published}, but the run failed afterwards ({error.message}); {_LEFT}") from None
        raise


_LEFT = (
    "run the same command again: it makes nothing new, but finishes what is left (latest.json, the audit, clearing the "
    "work area)"
)
