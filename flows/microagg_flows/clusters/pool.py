"""The workers of one scheduler, however they are had: what a kind of cluster hands to those who give them work."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from distributed import Client

from microagg_flows.clusters.watch import WorkerState

#: How long the scheduler may take to answer.
_ANSWER_SECONDS = 20.0


@dataclass(frozen=True)
class Pool:
    """The workers of one scheduler.

    Args:
        client: connected to it.
        no_workers: seconds for which there may be no worker.
        own: whether the workers are this release's alone: started from where this process was, and to be restarted
            where Dask has paused them for good.
    """

    client: Client
    no_workers: float
    own: bool

    def workers(self) -> list[WorkerState] | None:
        """The workers as the scheduler knows them; None where it does not answer."""
        try:
            scheduler: Any = self.client.scheduler
            identity: Any = self.client.sync(  # type: ignore[no-untyped-call]
                scheduler.identity, n_workers=-1, callback_timeout=_ANSWER_SECONDS
            )
        except (OSError, TimeoutError, asyncio.CancelledError, AttributeError):
            return None
        return [WorkerState.of(address, worker) for address, worker in identity["workers"].items()]
