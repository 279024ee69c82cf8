"""The workers of one scheduler, however they are had: what a kind of cluster hands to those who give them work."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Protocol

from distributed import Client

from microagg_core.spec.clusters import StartedWorkers
from microagg_flows.clusters.watch import WorkerState

#: How long the scheduler may take to answer.
_ANSWER_SECONDS = 20.0


class Supply(Protocol):
    """Where the workers of a pool come from, asked where there are none."""

    #: What to do where nobody came, as the end of a sentence.
    cure: str

    def news(self) -> str:
        """What is known of workers that are on their way; empty where nothing is."""

    def refusal(self) -> str:
        """Why no worker will come any more; empty where one may."""


class Others:
    """Workers that somebody else starts."""

    cure = "start workers, and start the release again"

    def news(self) -> str:
        """Nothing is known of them."""
        return ""

    def refusal(self) -> str:
        """They may come."""
        return ""


@dataclass(frozen=True)
class Pool:
    """The workers of one scheduler.

    Args:
        client: connected to it.
        no_workers: seconds for which there may be no worker.
        own: whether the workers are started from where this process was, and so are what it is.
        restarts: whether they are this release's alone, and may be restarted where Dask has paused them for good.
        wanted: what a spec says of workers that are started for it; None where others start them.
        supply: where they come from.
    """

    client: Client
    no_workers: float
    own: bool = False
    restarts: bool = False
    wanted: StartedWorkers | None = None
    supply: Supply = field(default_factory=Others)

    @property
    def most_threads(self) -> int:
        """How many threads there may come to be; 0 where nobody knows."""
        return self.wanted.n_most * self.wanted.threads if self.wanted else 0

    def workers(self) -> list[WorkerState] | None:
        """The workers as the scheduler knows them; None where it does not answer."""
        identity = self._told("identity", n_workers=-1)
        if identity is None:
            return None
        return [WorkerState.of(address, worker) for address, worker in identity["workers"].items()]

    def addresses(self) -> frozenset[str] | None:
        """Who is there, for those who ask often; None where the scheduler does not answer."""
        threads = self._told("ncores")
        return None if threads is None else frozenset(threads)

    def _told(self, question: str, **kwargs: Any) -> Any:
        """What the scheduler answers; None where it does not."""
        try:
            ask = getattr(self.client.scheduler, question)
            return self.client.sync(ask, callback_timeout=_ANSWER_SECONDS, **kwargs)  # type: ignore[no-untyped-call]
        except (OSError, TimeoutError, asyncio.CancelledError, AttributeError):
            return None
