"""``cluster: {kubernetes: ...}``: a DaskCluster that Dask's operator runs for the release, and that goes with it.

Dask's operator speaks no TLS with a scheduler. So the spec has to say that the network keeps others from it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import kr8s
from dask_kubernetes.exceptions import SchedulerStartupError
from dask_kubernetes.operator import KubeCluster, make_cluster_spec
from distributed.utils import LoopRunner, sync
from tornado.ioloop import IOLoop

from microagg_core.errors import ClusterError
from microagg_core.spec.clusters import Kubernetes, KubernetesCluster
from microagg_flows.clusters.pool import Pool, Supply
from microagg_flows.clusters.scheduler import connected, dask_settings, worker_variables
from microagg_flows.progress import Progress, awaited

_CLOSE_SECONDS = 60
#: How Kubernetes says no, and what becomes of a cluster that it took, or of a configuration that leads to none.
_REFUSALS = (httpx.HTTPError, kr8s.ServerError, kr8s.APITimeoutError, kr8s.ConnectionClosedError)
_TROUBLES = (OSError, KeyError, ValueError, RuntimeError, TimeoutError, SchedulerStartupError)
_CURE = "see to the rights of whoever starts releases, to Dask's operator and to cluster.kubernetes.image"
#: A scheduler that nobody speaks with any more is removed by the operator, should this process be killed.
_IDLE_SECONDS = 3600
#: Where a worker may write: its root is read-only.
_ROOM = "/tmp"


@contextmanager
def hired(cluster: KubernetesCluster, progress: Progress) -> Iterator[Pool]:
    wanted = cluster.kubernetes
    silent = "the scheduler on Kubernetes does not answer; see whether a network policy keeps this process from it"
    with (
        dask_settings(),
        _loop() as loop,
        _started(wanted, loop, progress) as address,
        connected(address, silent) as client,
    ):
        yield Pool(client, no_workers=wanted.wait, restarts=True, wanted=wanted, supply=_Pods(wanted))


@contextmanager
def _loop() -> Iterator[IOLoop]:
    """Run a loop in a thread of its own, in which nothing has to wait without an end."""
    runner = LoopRunner(asynchronous=False)
    runner.start()  # type: ignore[no-untyped-call]
    try:
        yield runner.loop
    finally:
        runner.stop()  # type: ignore[no-untyped-call]


def manifest(wanted: Kubernetes, name: str) -> dict[str, Any]:
    """Write the DaskCluster of a spec, as the operator wants it.

    >>> cluster = manifest(Kubernetes(image="registry/microagg:1", workers=3, unencrypted=True), "microagg-1")
    >>> cluster["kind"], cluster["spec"]["worker"]["replicas"]
    ('DaskCluster', 3)
    """
    cluster: dict[str, Any] = make_cluster_spec(
        name=name, image=wanted.image, n_workers=wanted.n_least, idle_timeout=_IDLE_SECONDS
    )
    scheduler, worker = cluster["spec"]["scheduler"]["spec"], cluster["spec"]["worker"]["spec"]
    _restrict(scheduler, wanted)
    _restrict(worker, wanted)
    limits = {"memory": str(wanted.memory_bytes), "cpu": str(wanted.cores or wanted.threads)}
    size = ["--nthreads", str(wanted.threads), "--memory-limit", str(wanted.memory_bytes), "--local-directory", _ROOM]
    # The image's own entry point may be the command of this package.
    scheduler["containers"][0] |= {"command": ["dask", "scheduler", "--host", "0.0.0.0"], "args": []}
    worker["containers"][0] |= {
        "command": ["dask", "worker", "--name", "$(DASK_WORKER_NAME)", "--no-dashboard", *size],
        "args": [],
        "resources": {"limits": limits, "requests": limits},
        "env": [{"name": key, "value": value} for key, value in worker_variables(wanted.environment).items()],
        "envFrom": [{"secretRef": {"name": wanted.secret}}] if wanted.secret else [],
        "ports": [],
    }
    return cluster


def _restrict(pod: dict[str, Any], wanted: Kubernetes) -> None:
    """Meet Kubernetes' standard for restricted pods."""
    if wanted.service_account:
        pod["serviceAccountName"] = wanted.service_account
    pod["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    pod["volumes"] = [{"name": "room", "emptyDir": {}}]
    pod["containers"][0] |= {
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "room", "mountPath": _ROOM}],
    }


@contextmanager
def _started(wanted: Kubernetes, loop: IOLoop, progress: Progress) -> Iterator[str]:
    """Have the operator start a scheduler, whose address this gives, and as many workers as there is work for.

    The DaskCluster is removed when the block ends; where that fails, the operator does it when it is idle.
    """
    pods: Any = KubeCluster(
        custom_cluster_spec=manifest(wanted, f"microagg-{os.getpid()}-{uuid.uuid4().hex[:6]}"),
        namespace=wanted.namespace,
        resource_timeout=wanted.wait,
        quiet=True,
        shutdown_on_close=True,
        asynchronous=True,
        loop=loop,
    )

    async def start() -> None:
        await pods
        if wanted.adapt:
            await pods.adapt(minimum=wanted.n_least, maximum=wanted.n_most)

    async def close() -> None:
        await pods.close(timeout=_CLOSE_SECONDS)

    try:
        try:
            with awaited(progress, "a scheduler on Kubernetes"):
                sync(loop, start, callback_timeout=wanted.wait)
        except _REFUSALS as error:
            raise ClusterError(f"Kubernetes does not take the cluster ({_in_words(error)}); {_CURE}") from None
        except _TROUBLES as error:
            raise ClusterError(f"Kubernetes has started no scheduler ({type(error).__name__}); {_CURE}") from None
        yield pods.scheduler_address
    finally:
        with suppress(*_REFUSALS, *_TROUBLES):
            sync(loop, close, callback_timeout=2 * _CLOSE_SECONDS)


def _in_words(error: BaseException) -> str:
    """Say the status of an answer; its text may be anything."""
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    return f"status {status}" if status else "it does not answer"


class _Pods(Supply):
    cure = "see to the pods (kubectl get pods) and what the cluster has left, and start the release again"

    def __init__(self, wanted: Kubernetes) -> None:
        self._wanted = wanted

    def news(self) -> str:
        return f"Kubernetes was asked for {self._wanted.n_least} to {self._wanted.n_most} pods"
