"""``microagg run``: a small release by this process alone; any other through Prefect, but for ``--direct``."""

from __future__ import annotations

import os

from microagg_core.extras import needing
from microagg_core.spec.release import NoCluster, ReleaseSpec
from microagg_flows import stages
from microagg_flows.clusters import cluster_for
from microagg_flows.prefect_side.named import names_prefect_server
from microagg_flows.progress import Progress
from microagg_flows.releasing import Order, Settled, now, run_release


def make_release(order: Order, direct: bool, progress: Progress) -> None:
    """Run a release as the command line does; whoever observes its outcome learns how it ended."""
    spec = Settled.of(order, now()).spec  # errors of the spec come before anything is started
    if direct or _needs_nobody(spec):
        run_release(order, progress, stages.run_stage, now())
        return
    with needing("prefect", "a release through Prefect (without it: --direct)"):
        from microagg_flows.prefect_side.embedded_server import settle_home

        if unusual := settle_home():
            progress.say(unusual)
        from microagg_flows.prefect_side.flow_run import release_through_prefect
    release_through_prefect(order, progress)


def _needs_nobody(spec: ReleaseSpec) -> bool:
    """Whether a release is so small, and its spec so plain, that neither a cluster nor a Prefect server is wanted."""
    if spec.cluster is not None or names_prefect_server(os.environ):
        return False
    return isinstance(cluster_for(spec), NoCluster)
