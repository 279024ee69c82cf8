"""Workers that are pods: what is asked of Kubernetes, by a stand-in that runs what it is asked for."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from inputs.people import people
from microagg_core.errors import ClusterError
from microagg_core.spec.clusters import Adapt, Kubernetes, KubernetesCluster
from microagg_core.spec.loading import load_spec
from microagg_core.spec.release import ReleaseSpec
from microagg_flows.clusters import connect
from microagg_flows.clusters.kubernetes import manifest
from microagg_flows.progress import Silence
from releasing.runs import write_release
from servers.kubernetes_server import running_kubernetes

pytestmark = pytest.mark.server


def cluster_of(**others: Any) -> KubernetesCluster:
    parts: dict[str, Any] = {"memory": "1GiB", "unencrypted": True, "wait": 60, **others}
    return KubernetesCluster(kubernetes=Kubernetes(image="registry/microagg:1", **parts))


def some_spec(folder: Path) -> ReleaseSpec:
    return load_spec(str(write_release(folder, [people(2000)])))


def place_of(_item: int) -> tuple[int, str]:
    time.sleep(0.1)
    return os.getpid(), os.environ.get("PLACE", "")


@pytest.mark.parametrize("size", [{"workers": 2}, {"adapt": Adapt(minimum=0, maximum=2)}], ids=["workers", "adapt"])
def test_pods_do_the_work_and_go_with_the_run(tmp_path: Path, size: dict[str, Any]) -> None:
    cluster = cluster_of(environment={"PLACE": "a pod"}, **size)
    with running_kubernetes(tmp_path) as server:
        with connect(cluster, some_spec(tmp_path), Silence()) as executor:
            done = executor.map(place_of, list(range(20)), "place")
        assert {place for _, place in done} == {"a pod"}
        assert server.objects == {} and server.processes == {}
        assert ("POST", "/apis/kubernetes.dask.org/v1/namespaces/stats/daskclusters") in server.asked


def test_pods_keep_to_the_restricted_standard_and_name_secrets_without_holding_any() -> None:
    wanted = cluster_of(service_account="releases", secret="bucket", cores=0.5, threads=2).kubernetes
    spec = manifest(wanted, "microagg-1")["spec"]
    for part in ("scheduler", "worker"):
        pod = spec[part]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] and pod["serviceAccountName"] == "releases"
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert not container["securityContext"]["allowPrivilegeEscalation"]
    (worker,) = spec["worker"]["spec"]["containers"]
    assert worker["resources"]["limits"] == {"memory": str(2**30), "cpu": "0.5"}
    assert worker["envFrom"] == [{"secretRef": {"name": "bucket"}}]


def test_a_kubernetes_that_takes_nothing_is_named(tmp_path: Path) -> None:
    with (
        running_kubernetes(tmp_path, takes=False),
        pytest.raises(ClusterError, match=r"Kubernetes does not take the cluster \(status 403\); see to the rights"),
        connect(cluster_of(), some_spec(tmp_path), Silence()),
    ):
        pass


def test_without_kubernetes_one_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kubeconfig").write_text("{}")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    with pytest.raises(ClusterError, match="Kubernetes"), connect(cluster_of(), some_spec(tmp_path), Silence()):
        pass
