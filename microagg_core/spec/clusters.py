"""Who may do the work: the kinds of cluster, one model each.

A new kind is a model here, named in ``MODELS``, ``Cluster`` and ``AnyCluster``, and a module in
``flows/microagg_flows/clusters`` that starts or reaches it. Its keys are told from those of the others by its first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator

from microagg_core.spec.model import Model, Number, Problem
from microagg_core.spec.places import without_credentials
from microagg_core.spec.pools import StartedWorkers
from microagg_core.spec.remote_workers import KubernetesCluster, SlurmCluster, SshCluster

ADDRESS_PATTERN = r"^(tcp|tls|ucx|ws|wss|inproc)://.+"


class LocalCluster(StartedWorkers):
    """A Dask cluster on this machine, started for the run and stopped after it."""


class NoCluster(Model):
    """No cluster: the work is done one task after the other by the process that was called."""

    none: Literal[True] = Field(default=True, description="nothing to set")


class Tls(Model):
    """Where the certificates lie that a scheduler at a ``tls://`` address asks for; each is a path."""

    ca: str = Field(min_length=1, description="path of the certificate authority's certificate (PEM)")
    cert: str = Field(min_length=1, description="path of this side's certificate (PEM)")
    key: str = Field(min_length=1, description="path of this side's private key (PEM)")


class RunningCluster(Model):
    """A Dask scheduler that is already there."""

    address: str = Field(pattern=ADDRESS_PATTERN, description="e.g. tls://scheduler:8786")
    tls: Tls | None = Field(
        default=None, description="certificates for a tls:// address; default: those of Dask's own configuration"
    )
    unencrypted: bool = Field(
        default=False,
        strict=True,
        description="true: an address beyond this machine may be without TLS; whoever reaches such a scheduler can "
        "run code in its workers, with their rights and credentials",
    )
    wait: Number = Field(
        default=300,
        gt=0,
        allow_inf_nan=False,
        description="seconds without any worker, at the start or later, before the release gives up",
    )

    @field_validator("address")
    @classmethod
    def _no_credentials_in_address(cls, address: str) -> str:
        return without_credentials(address)

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        """Beyond this machine a scheduler is reached by TLS, unless the spec says that it need not be."""
        address = parts.get("address", "")
        if parts.get("tls") is not None and not address.startswith(_ENCRYPTED):
            yield (
                ("tls",),
                f"is for an address that starts with tls:// or wss:// (got {address.partition('://')[0]}://)",
            )
        if address.startswith((*_ENCRYPTED, "inproc://")) or parts.get("unencrypted", False):
            return
        if not is_loopback(address):
            yield (
                ("address",),
                "is beyond this machine and without TLS, so whoever reaches the scheduler can run code in its "
                "workers; use tls://, or set unencrypted: true where the network is trusted",
            )


_ENCRYPTED = ("tls://", "wss://")


def is_loopback(address: str) -> bool:
    """Whether a scheduler's address is one of this machine's own.

    >>> is_loopback("tcp://127.0.0.1:8786"), is_loopback("tcp://[::1]:8786"), is_loopback("tcp://scheduler:8786")
    (True, True, False)
    """
    host = (urlsplit(address).hostname or "").lower()
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


Cluster = NoCluster | LocalCluster | RunningCluster | SshCluster | SlurmCluster | KubernetesCluster
#: Every kind by its name, with what a spec says of it.
MODELS: dict[str, type[Model]] = {
    "none": NoCluster,
    "local": LocalCluster,
    "running": RunningCluster,
    "ssh": SshCluster,
    "slurm": SlurmCluster,
    "kubernetes": KubernetesCluster,
}


#: Kinds whose parts stand one level further in.
_ELSEWHERE = {"ssh", "slurm", "kubernetes"}


def _cluster_shape(value: Any) -> Any:
    """``none``, ``local``, ``{local: {...}}``, an address or ``{address: ...}`` as the parts of one of the models."""
    if value is None or isinstance(value, Cluster):
        return value
    if value in ("none", {"none": None}, {"none": {}}):
        return {"none": True}
    if value == "local":
        return {}
    if isinstance(value, str):
        return {"address": value}
    if isinstance(value, dict) and set(value) == {"local"}:
        value = value["local"] if value["local"] is not None else {}
    if not isinstance(value, dict) or "local" in value or (len(value) > 1 and _ELSEWHERE & set(value)):
        raise ValueError(
            "must be 'none', 'local', a scheduler's address, or one of 'local:', 'ssh:', 'slurm:' and 'kubernetes:' "
            "with what each takes"
        )
    return value


def _cluster_kind(value: Any) -> str:
    """The name of the model whose first field is there; without any, the parts are those of ``local``."""
    if value is None:
        return "choice"
    keys = value if isinstance(value, dict) else dict(value)
    told = (name for name, model in MODELS.items() if name != "local" and next(iter(model.model_fields)) in keys)
    return next(told, "local")


AnyCluster = Annotated[
    Annotated[None, Tag("choice")]
    | Annotated[NoCluster, Tag("none")]
    | Annotated[LocalCluster, Tag("local")]
    | Annotated[RunningCluster, Tag("running")]
    | Annotated[SshCluster, Tag("ssh")]
    | Annotated[SlurmCluster, Tag("slurm")]
    | Annotated[KubernetesCluster, Tag("kubernetes")],
    Discriminator(_cluster_kind),
    BeforeValidator(_cluster_shape),
]
