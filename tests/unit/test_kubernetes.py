"""What `deploy/kubernetes` asks for, against the schemas of Kubernetes and of Dask's operator; no cluster is needed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from microagg_core.spec.loading import load_spec

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
#: The oldest that has all that is asked for, and the newest.
VERSIONS = ["1.31", kubernetes_validate.latest_version()]
OPERATOR = "operator/deployment/helm/dask-kubernetes-operator/crds/daskcluster.yaml"
Document = dict[str, Any]


def _documents(name: str) -> list[Document]:
    return [one for one in yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")) if one]


KUSTOMIZATION = _documents("kustomization.yaml")[0]
DOCUMENTS = [document for name in KUSTOMIZATION["resources"] for document in _documents(name)]


def _named(document: Document) -> str:
    return f"{document['kind']}-{document['metadata']['name']}"


def _one(kind: str) -> Document:
    (document,) = [document for document in DOCUMENTS if document["kind"] == kind]
    return document


def _pods() -> Iterator[tuple[str, Document, Document]]:
    """Every pod that is asked for: what it is, its labels and its spec."""
    cluster = _one("DaskCluster")["spec"]
    for name in ("scheduler", "worker"):
        yield name, cluster[name]["metadata"]["labels"], cluster[name]["spec"]
    template = _one("CronJob")["spec"]["jobTemplate"]["spec"]["template"]
    yield "nightly", template["metadata"]["labels"], template["spec"]


PODS = [pytest.param(*pod, id=pod[0]) for pod in _pods()]


def test_all_files_are_in_the_kustomization() -> None:
    named = [*KUSTOMIZATION["resources"], "kustomization.yaml", "README.md"]
    named += [name for generator in KUSTOMIZATION["configMapGenerator"] for name in generator["files"]]
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(named)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "document", [pytest.param(one, id=_named(one)) for one in DOCUMENTS if one["kind"] != "DaskCluster"]
)
def test_documents_are_as_kubernetes_wants_them(document: Document, version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


def test_the_cluster_is_as_dasks_operator_wants_it() -> None:
    definition = yaml.safe_load((files("dask_kubernetes") / OPERATOR).read_text(encoding="utf-8"))
    cluster = _one("DaskCluster")
    (version,) = [one for one in definition["spec"]["versions"] if cluster["apiVersion"].endswith(f"/{one['name']}")]
    assert cluster["apiVersion"] == f"{definition['spec']['group']}/{version['name']}"
    jsonschema.validate(cluster, version["schema"]["openAPIV3Schema"])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("name", "labels", "spec"), PODS)
def test_pods_have_no_field_that_kubernetes_does_not_know(
    name: str, labels: Document, spec: Document, version: str
) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}
    kubernetes_validate.validate(pod, version, strict=True)


@pytest.mark.parametrize(("name", "labels", "spec"), PODS)
def test_pods_keep_to_the_restricted_standard(name: str, labels: Document, spec: Document) -> None:
    """And to a root that is read-only, which that standard does not ask for."""
    rights = spec["securityContext"]
    assert rights["runAsNonRoot"] is True and rights["runAsUser"] > 0
    assert rights["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert all(set(volume) - {"name"} <= {"emptyDir", "secret", "configMap"} for volume in spec["volumes"])
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert container["resources"]["limits"]["memory"] == container["resources"]["requests"]["memory"]
        assert [mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")] == ["room"]


def test_the_namespace_refuses_other_pods() -> None:
    assert _one("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_secrets_are_named_and_not_there() -> None:
    assert not [document for document in DOCUMENTS if document["kind"] == "Secret"]
    assert "secretGenerator" not in KUSTOMIZATION
    said = (FOLDER / "README.md").read_text(encoding="utf-8")
    for _, _, spec in _pods():
        secrets = [volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume]
        for container in spec["containers"]:
            secrets += [source["secretRef"]["name"] for source in container.get("envFrom", [])]
            assert not {"AWS_SECRET_ACCESS_KEY", "MICROAGG_SERIES_KEY"} & {e["name"] for e in container.get("env", [])}
        assert all(f" {secret} " in said for secret in secrets)


def _selects(selector: Document, labels: Document) -> bool:
    named = selector.get("matchLabels", {}).items() <= labels.items()
    return named and all(labels.get(one["key"]) in one["values"] for one in selector.get("matchExpressions", []))


def _lets(direction: str, subject: Document, other: Document, port: int) -> bool:
    """Whether a policy for pods of these labels lets them speak with those of others, on a port."""
    side = {"ingress": "from", "egress": "to"}[direction]
    policies = [one["spec"] for one in DOCUMENTS if one["kind"] == "NetworkPolicy"]
    return any(
        _selects(peer["podSelector"], other)
        and any(p["port"] <= port <= p.get("endPort", p["port"]) for p in rule["ports"])
        for policy in policies
        if _selects(policy["podSelector"], subject)
        for rule in policy.get(direction, [])
        for peer in rule[side]
        if "podSelector" in peer
    )


def test_who_speaks_with_whom() -> None:
    labels = {name: labels for name, labels, _ in _pods()}
    ports = {"scheduler": [8786, 8787], "worker": [9000, 9001], "nightly": [8786]}
    spoken = {
        (source, target, port)
        for source in labels
        for target in labels
        for port in ports[target]
        if _lets("egress", labels[source], labels[target], port)
        and _lets("ingress", labels[target], labels[source], port)
    }
    assert spoken == {
        ("worker", "scheduler", 8786), ("nightly", "scheduler", 8786),
        ("scheduler", "worker", 9000), ("scheduler", "worker", 9001),
        ("worker", "worker", 9000), ("worker", "worker", 9001),
    }  # fmt: skip


def test_nobody_speaks_unless_a_policy_says_so() -> None:
    assert {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]} in [
        one["spec"] for one in DOCUMENTS if one["kind"] == "NetworkPolicy"
    ]


def test_the_spec_is_one_of_ours_and_names_the_cluster() -> None:
    cluster = load_spec(str(FOLDER / "release.yaml")).cluster
    assert cluster is not None and cluster.model_dump()["address"] == "tls://microagg-scheduler:8786"
    assert _one("DaskCluster")["metadata"]["name"] == "microagg"
