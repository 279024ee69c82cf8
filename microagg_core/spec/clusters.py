"""Kinds of cluster that may do the work, a :class:`ClusterKind` with a model each.

A new kind is one object: here, with a module of its name in ``flows/microagg_flows/clusters`` that starts or reaches
it, or by an entry point of ``microagg.clusters`` of another distribution.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    WithJsonSchema,
    field_validator,
)

from microagg_core.data.places import secrets_in, without_credentials
from microagg_core.errors import SpecError
from microagg_core.model import Model, Number, PartError, Problem, Whole
from microagg_core.registry import plug_ins

#: How many workers are started where a spec does not say, and how many threads and how much memory each has.
DEFAULT_WORKERS = 2

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse_bytes(text: str) -> int:
    """Parse a size such as ``512MiB``; ValueError for anything else, and for nothing at all.

    >>> parse_bytes("1.5 GiB")
    1610612736
    """
    match = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([A-Za-z]*)\s*", text)
    size = int(float(match[1]) * _UNITS.get(match[2].lower(), 0)) if match else 0
    if size < 1:
        raise ValueError(f"must be a size such as 512MiB or 2GiB (got {text!r})")
    return size


def _a_size(text: str) -> str:
    parse_bytes(text)
    return text


def _number_as_text(value: Any) -> Any:
    """Accept a number: YAML reads ``OMP_NUM_THREADS: 1`` as one."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


_Text = Annotated[str, BeforeValidator(_number_as_text), WithJsonSchema({"type": ["string", "number"]})]


def wait_of(seconds: int) -> Any:
    """Field of the seconds for which a release does without workers."""
    text = "seconds without any worker, at the start or later, before the release gives up"
    return Field(default=seconds, gt=0, allow_inf_nan=False, description=text)


class Adapt(Model):
    """A number of workers that follows the work."""

    minimum: Whole = Field(default=0, ge=0, description="workers that are kept when there is nothing to do")
    maximum: Whole = Field(ge=1, description="workers that there are at most")

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        if "minimum" in parts and "maximum" in parts and parts["minimum"] > parts["maximum"]:
            yield ("minimum",), f"must not be above the maximum (got {parts['minimum']} and {parts['maximum']})"


class StartedWorkers(Model):
    """Workers that are started for a release and stopped after it."""

    workers: Whole | None = Field(default=None, ge=1, description=f"worker processes; default: {DEFAULT_WORKERS}")
    adapt: Adapt | None = Field(default=None, description="in place of workers: as many as there is work for")
    threads: Whole = Field(default=1, ge=1, description="threads of each worker: tasks at once, or more for one task")
    memory: Annotated[str, AfterValidator(_a_size)] = Field(
        default="2GiB", description="memory limit of each worker, e.g. 1GiB"
    )
    wait: Number = wait_of(60)
    environment: dict[str, _Text] = Field(
        default={}, description="environment variables of the workers; never credentials"
    )

    @field_validator("environment")
    @classmethod
    def _plain_variables(cls, environment: dict[str, str]) -> dict[str, str]:
        if problems := [*secrets_in(environment), *_unusable(environment)]:
            raise PartError(problems)
        return environment

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        if parts.get("workers") is not None and parts.get("adapt") is not None:
            yield ("adapt",), "stands in the place of workers; keep one of the two"

    @property
    def memory_bytes(self) -> int:
        return parse_bytes(self.memory)

    @property
    def n_least(self) -> int:
        return self.adapt.minimum if self.adapt else self.workers or self.n_default

    @property
    def n_most(self) -> int:
        """Workers that there may be.

        >>> StartedWorkers().n_most, StartedWorkers(adapt={"maximum": 40}).n_most
        (2, 40)
        """
        return self.adapt.maximum if self.adapt else self.workers or self.n_default

    @property
    def n_default(self) -> int:
        return DEFAULT_WORKERS


def _unusable(environment: Mapping[str, str]) -> Iterator[Problem]:
    for name, value in environment.items():
        if not _VARIABLE.fullmatch(name):
            yield (name,), "its name must be letters, digits and '_', and start with no digit"
        elif any(ord(character) < 32 for character in value):
            yield (name,), "must be one line of text"


#: Words that are handed to other programs: of one line, and nothing that a shell or a program could take for more.
WORD_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:,@+/=-]*$"
_Word = Annotated[str, StringConstraints(pattern=WORD_PATTERN)]
PATH_PATTERN = r"^[A-Za-z0-9._~/-][A-Za-z0-9._~/+@=-]*$"
_Path = Annotated[str, StringConstraints(pattern=PATH_PATTERN)]
HOST_PATTERN = r"^([A-Za-z0-9._-]+@)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$"
Host = Annotated[str, StringConstraints(pattern=HOST_PATTERN)]
WALLTIME_PATTERN = r"^([0-9]+-)?[0-9]{1,3}:[0-9]{2}:[0-9]{2}$"


def _seconds_as_text(value: Any) -> Any:
    """Accept a number of seconds: YAML reads ``12:00:00`` as one.

    >>> _seconds_as_text(43_200)
    '12:00:00'
    """
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    return f"{value // 3600:02}:{value // 60 % 60:02}:{value % 60:02}"


class _Elsewhere(StartedWorkers):
    """Workers on other machines; their scheduler is in the process that was called."""

    host: _Word | None = Field(
        default=None,
        description="name or address of this machine at which the workers reach it; default: that of its network",
    )
    python: _Path | None = Field(default=None, description="Python of the workers; default: the path of this one")


class Ssh(_Elsewhere):
    """Workers that are started on other machines through ssh."""

    hosts: tuple[Host, ...] = Field(
        description="machines, each as [user@]name[:port]", json_schema_extra={"minItems": 1}
    )
    key_file: str | None = Field(
        default=None, min_length=1, description="path of the private key; default: those of ssh and its agent"
    )
    known_hosts: str | None = Field(
        default=None, min_length=1, description="path of the machines' public keys; default: ~/.ssh/known_hosts"
    )
    wait: Number = wait_of(120)

    @field_validator("hosts")
    @classmethod
    def _some_machine(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        if not hosts:
            raise ValueError("must name at least one machine")
        return hosts

    @property
    def n_default(self) -> int:
        return len(self.hosts)


class Slurm(_Elsewhere):
    """Workers that are jobs of Slurm, one each."""

    queue: _Word | None = Field(default=None, description="the partition; default: that of the site")
    account: _Word | None = Field(default=None, description="who pays; default: that of the site")
    walltime: Annotated[str, StringConstraints(pattern=WALLTIME_PATTERN), BeforeValidator(_seconds_as_text)] = Field(
        default="01:00:00", description="how long a job may last, [days-]hours:minutes:seconds; others follow it"
    )
    cores: Whole | None = Field(default=None, ge=1, description="cores of each job; default: as many as threads")
    options: tuple[str, ...] = Field(default=(), description="other options of sbatch, e.g. [--constraint=fast]")
    prologue: tuple[str, ...] = Field(
        default=(), description="lines of shell before a worker starts, e.g. [module load python]; never credentials"
    )
    logs: _Path | None = Field(
        default=None, description="folder for the jobs' logs, there on every node; default: none are kept"
    )
    wait: Number = wait_of(3600)

    @field_validator("options")
    @classmethod
    def _options_of_sbatch(cls, options: tuple[str, ...]) -> tuple[str, ...]:
        for option in options:
            if not re.fullmatch(r"--?[A-Za-z][^\x00-\x1f]*", option):
                raise ValueError("must be options of sbatch, each one line that starts with -")
        return options

    @field_validator("prologue")
    @classmethod
    def _lines(cls, prologue: tuple[str, ...]) -> tuple[str, ...]:
        if any(re.search(r"[\x00-\x08\x0a-\x1f]", line) for line in prologue):
            raise ValueError("must be lines of shell")
        return prologue

    @property
    def seconds(self) -> int:
        """How long a job may last.

        >>> Slurm(walltime="1-02:00:00").seconds // 3600
        26
        """
        days, _, rest = self.walltime.rpartition("-")
        hours, minutes, seconds = (int(part) for part in rest.split(":"))
        return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


class Kubernetes(StartedWorkers):
    """Workers that are pods of Kubernetes, which Dask's operator starts."""

    image: _Word = Field(description="image of scheduler and workers, with the microagg that is installed here")
    namespace: _Word | None = Field(default=None, description="where the pods are; default: the current one")
    service_account: _Word | None = Field(default=None, description="whose rights the pods have, at the buckets too")
    secret: _Word | None = Field(
        default=None, description="name of a Kubernetes secret whose entries are the pods' environment variables"
    )
    cores: Number | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="cores of each worker; default: as many as threads"
    )
    unencrypted: bool = Field(
        default=False,
        strict=True,
        description="true: Dask's operator speaks no TLS, and a network policy keeps others from the scheduler, who "
        "could run code in its workers, with their rights and credentials",
    )
    wait: Number = wait_of(600)

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        yield from super().cross_check(parts)
        if not parts.get("unencrypted", False):
            yield (
                (),
                "unencrypted must be true: Dask's operator speaks no TLS, so whoever reaches the scheduler can run "
                "code in its workers, unless a network policy keeps them from it; with TLS, name a scheduler by its "
                "address",
            )


class SshCluster(Model):
    """A cluster on machines that are reached by ssh."""

    ssh: Ssh = Field(description="Dask workers that are started through ssh")


class SlurmCluster(Model):
    """A cluster of jobs of Slurm."""

    slurm: Slurm = Field(description="Dask workers that are jobs of Slurm")


class KubernetesCluster(Model):
    """A cluster of pods of Kubernetes."""

    kubernetes: Kubernetes = Field(description="Dask workers that are pods of Kubernetes")


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

    address: Annotated[str, Field(pattern=ADDRESS_PATTERN), AfterValidator(without_credentials)] = Field(
        description="e.g. tls://scheduler:8786"
    )
    tls: Tls | None = Field(
        default=None, description="certificates for a tls:// address; default: those of Dask's own configuration"
    )
    unencrypted: bool = Field(
        default=False,
        strict=True,
        description="true: an address beyond this machine may be without TLS; whoever reaches such a scheduler can "
        "run code in its workers, with their rights and credentials",
    )
    wait: Number = wait_of(300)

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
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
    """Tell whether a scheduler's address is one of this machine's own.

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


@dataclass(frozen=True)
class ClusterKind:
    """A kind of cluster; the module of an entry point that adds one is loaded with the models of a spec, and so imports
    nothing of ``microagg_flows`` but in its functions.
    """

    name: str
    #: Its parts in a spec, told from those of the others by the first of them.
    model: type[Model]
    #: Whether its workers share this machine's compiled kernels, which are then made beforehand.
    on_this_machine: bool = False
    #: The extra of the package that brings what it needs.
    extra: str = ""
    what: str = "a Dask cluster"
    #: Where its ``hired(cluster, progress)`` is, a context manager that gives workers; by default in the module of its
    #: name in ``microagg_flows.clusters``. Loaded when it is wanted: Dask takes a second and may be missing.
    module: str = ""


Cluster = NoCluster | LocalCluster | RunningCluster | SshCluster | SlurmCluster | KubernetesCluster
_OWN = (
    ClusterKind("none", NoCluster, on_this_machine=True),
    ClusterKind("local", LocalCluster, on_this_machine=True, extra="cluster"),
    ClusterKind("running", RunningCluster, extra="cluster"),
    ClusterKind("ssh", SshCluster, extra="ssh", what="workers through ssh"),
    ClusterKind("slurm", SlurmCluster, extra="slurm", what="workers by Slurm"),
    ClusterKind("kubernetes", KubernetesCluster, extra="kubernetes", what="workers on Kubernetes"),
)


def _all_kinds() -> dict[str, ClusterKind]:
    kinds = {kind.name: kind for kind in _OWN}
    for kind in plug_ins("microagg.clusters", ClusterKind):
        if kind.name in kinds:
            raise SpecError(f"the plug-in for the cluster {kind.name} has the name of another; uninstall it")
        kinds[kind.name] = kind
    return kinds


KINDS = _all_kinds()
#: Kinds whose parts stand one level further in, below their name.
_NESTED = {name for name, kind in KINDS.items() if name != "none" and list(kind.model.model_fields) == [name]}


def _cluster_shape(value: Any) -> Any:
    """Take ``none``, ``local``, ``{local: {...}}``, an address or ``{address: ...}`` as parts of a model."""
    if value is None or isinstance(value, tuple(kind.model for kind in KINDS.values())):
        return value
    if value in ("none", {"none": None}, {"none": {}}):
        return {"none": True}
    if value == "local":
        return {}
    if isinstance(value, str):
        return {"address": value}
    if isinstance(value, dict) and set(value) == {"local"}:
        value = value["local"] if value["local"] is not None else {}
    if not isinstance(value, dict) or "local" in value or (len(value) > 1 and _NESTED & set(value)):
        nested = [f"'{name}:'" for name in KINDS if name == "local" or name in _NESTED]
        raise ValueError(
            f"must be 'none', 'local', a scheduler's address, or one of {', '.join(nested[:-1])} and {nested[-1]} "
            "with what each takes"
        )
    return value


def _cluster_kind(value: Any) -> str:
    """Name the model whose first field is there; without any, the parts are those of ``local``."""
    if value is None:
        return "choice"
    keys = value if isinstance(value, dict) else dict(value)
    named = (name for name, kind in KINDS.items() if name != "local" and next(iter(kind.model.model_fields)) in keys)
    return next(named, "local")


if TYPE_CHECKING:
    AnyCluster = Cluster | None
else:
    _TAGGED = [Annotated[kind.model, Tag(name)] for name, kind in KINDS.items()]
    AnyCluster = Annotated[
        Union[(Annotated[None, Tag("choice")], *_TAGGED)],
        Discriminator(_cluster_kind),
        BeforeValidator(_cluster_shape),
    ]
