"""What Dask's workers are asked before they are given work, and who gives it to them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from microagg_core.errors import ClusterError
from microagg_core.release.surroundings import Surroundings
from microagg_core.spec.release import ReleaseSpec
from microagg_flows.clusters.dask_executor import DaskExecutor
from microagg_flows.clusters.handshake import greet_scheduler, records_of, surroundings_of
from microagg_flows.clusters.pool import Pool
from microagg_flows.clusters.records import WorkerRecord
from microagg_flows.clusters.watch import WorkerState
from microagg_flows.progress import Progress

#: How often to look whether workers have come, and how long the others may take that the spec wants, after the first.
_LOOK_SECONDS, _OTHERS_SECONDS = 0.5, 30.0


@dataclass(frozen=True)
class DaskWorkers:
    """The workers of one scheduler."""

    pool: Pool

    def executor(self, spec: ReleaseSpec, progress: Progress) -> DaskExecutor:
        """Who has them do the tasks of the spec's release."""
        return DaskExecutor(self.pool, spec, progress)

    def records(self, spec: ReleaseSpec) -> list[WorkerRecord]:
        """What each says of itself, as soon as all have come that the spec wants, or some and a while has passed.

        Raises:
            ClusterError: none comes, none answers, or the scheduler itself is not fit for the work.
        """
        client = self.pool.client
        if not self.pool.own:
            greet_scheduler(client)
        # Where a pool grows with its work, something has to be wanted of it.
        wanted = client.submit(abs, -1, pure=False)
        try:
            return records_of(client, spec, self._awaited())
        finally:
            wanted.cancel()  # type: ignore[no-untyped-call]

    def surroundings(self, spec: ReleaseSpec, addresses: Sequence[str]) -> dict[str, Surroundings]:
        """What workers that are fit for the work find around them, by address; one that left meanwhile, nothing.

        Raises:
            ClusterError: they do not answer.
        """
        return surroundings_of(self.pool.client, spec, addresses)

    def _awaited(self) -> list[WorkerState]:
        began, pool = time.monotonic(), self.pool
        n_wanted = max(1, pool.wanted.n_least) if pool.wanted else 1
        first: float | None = None
        while len(workers := pool.workers() or []) < n_wanted:
            now = time.monotonic()
            first = first or (now if workers else None)
            if workers and first and now - first > _OTHERS_SECONDS:
                break
            if not workers:
                self._refuse_to_wait(now - began)
            time.sleep(_LOOK_SECONDS)
        return workers

    def _refuse_to_wait(self, waited: float) -> None:
        """Stop where nobody will come, or came for too long.

        Raises:
            ClusterError: with what is known of the workers.
        """
        supply = self.pool.supply
        if refusal := supply.refusal():
            raise ClusterError(f"no worker comes, because {refusal}; mend that, and ask again")
        if waited > self.pool.no_workers:
            news = supply.news()
            raise ClusterError(
                f"no worker came within {self.pool.no_workers:.0f} s{f' ({news})' if news else ''}; start workers, or "
                "give them more time (wait, in cluster)"
            )
