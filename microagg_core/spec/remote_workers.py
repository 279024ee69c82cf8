"""Workers that are started on other machines: through ssh, a batch system, or Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints, field_validator

from microagg_core.spec.model import Model, Number, Problem, Whole
from microagg_core.spec.pools import StartedWorkers

#: Words that are handed to other programs: of one line, and nothing that a shell or a program could take for more.
WORD_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:,@+/=-]*$"
_Word = Annotated[str, StringConstraints(pattern=WORD_PATTERN)]
PATH_PATTERN = r"^[A-Za-z0-9._~/-][A-Za-z0-9._~/+@=-]*$"
_Path = Annotated[str, StringConstraints(pattern=PATH_PATTERN)]
HOST_PATTERN = r"^([A-Za-z0-9._-]+@)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$"
Host = Annotated[str, StringConstraints(pattern=HOST_PATTERN)]
WALLTIME_PATTERN = r"^([0-9]+-)?[0-9]{1,3}:[0-9]{2}:[0-9]{2}$"


def _seconds_as_text(value: Any) -> Any:
    """YAML reads ``12:00:00`` as a number of seconds.

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
    wait: Number = Field(
        default=120,
        gt=0,
        allow_inf_nan=False,
        description="seconds without any worker, at the start or later, before the release gives up",
    )

    @field_validator("hosts")
    @classmethod
    def _some_machine(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        if not hosts:
            raise ValueError("must name at least one machine")
        return hosts

    @property
    def n_default(self) -> int:
        """One on each machine."""
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
    wait: Number = Field(
        default=3600,
        gt=0,
        allow_inf_nan=False,
        description="seconds without any worker, at the start or later, before the release gives up",
    )

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
    wait: Number = Field(
        default=600,
        gt=0,
        allow_inf_nan=False,
        description="seconds without any worker, at the start or later, before the release gives up",
    )

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        """Without TLS nothing is sent, unless the spec says that it may be."""
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
