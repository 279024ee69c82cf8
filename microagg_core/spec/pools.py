"""Workers that are started for a release: how many there are, what each of them is, and how long to wait for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator

from microagg_core.spec.credentials import secrets_in
from microagg_core.spec.model import Model, Number, PartError, Problem, Whole

#: How many workers are started where a spec does not say, and how many threads and how much memory each has.
DEFAULT_WORKERS = 2

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse_bytes(text: str) -> int:
    """Bytes of a size such as ``512MiB``; ValueError for anything else, and for nothing at all.

    >>> parse_bytes("1.5 GiB")
    1610612736
    """
    match = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([A-Za-z]*)\s*", text)
    size = int(float(match[1]) * _UNITS.get(match[2].lower(), 0)) if match else 0
    if size < 1:
        raise ValueError(f"must be a size such as 512MiB or 2GiB (got {text!r})")
    return size


def _number_as_text(value: Any) -> Any:
    """YAML reads ``OMP_NUM_THREADS: 1`` as a number."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


_Text = Annotated[str, BeforeValidator(_number_as_text), WithJsonSchema({"type": ["string", "number"]})]


class Adapt(Model):
    """A number of workers that follows the work."""

    minimum: Whole = Field(default=0, ge=0, description="workers that are kept when there is nothing to do")
    maximum: Whole = Field(ge=1, description="workers that there are at most")

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        """The least is not above the most."""
        if "minimum" in parts and "maximum" in parts and parts["minimum"] > parts["maximum"]:
            yield ("minimum",), f"must not be above the maximum (got {parts['minimum']} and {parts['maximum']})"


class StartedWorkers(Model):
    """Workers that are started for a release and stopped after it."""

    workers: Whole | None = Field(default=None, ge=1, description=f"worker processes; default: {DEFAULT_WORKERS}")
    adapt: Adapt | None = Field(default=None, description="in place of workers: as many as there is work for")
    threads: Whole = Field(default=1, ge=1, description="threads of each worker: tasks at once, or more for one task")
    memory: str = Field(default="2GiB", description="memory limit of each worker, e.g. 1GiB")
    wait: Number = Field(
        default=60,
        gt=0,
        allow_inf_nan=False,
        description="seconds without any worker, at the start or later, before the release gives up",
    )
    environment: dict[str, _Text] = Field(
        default={}, description="environment variables of the workers; never credentials"
    )

    @field_validator("memory")
    @classmethod
    def _a_size(cls, memory: str) -> str:
        parse_bytes(memory)
        return memory

    @field_validator("environment")
    @classmethod
    def _plain_variables(cls, environment: dict[str, str]) -> dict[str, str]:
        if problems := [*secrets_in(environment), *_unusable(environment)]:
            raise PartError(problems)
        return environment

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        """A number, or two between which it may be."""
        if parts.get("workers") is not None and parts.get("adapt") is not None:
            yield ("adapt",), "stands in the place of workers; keep one of the two"

    @property
    def memory_bytes(self) -> int:
        """The memory limit in bytes."""
        return parse_bytes(self.memory)

    @property
    def n_least(self) -> int:
        """Workers that there are whatever there is to do."""
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
        """Workers where the spec names no number."""
        return DEFAULT_WORKERS


def _unusable(environment: Mapping[str, str]) -> Iterator[Problem]:
    """Variables that no system takes."""
    for name, value in environment.items():
        if not _VARIABLE.fullmatch(name):
            yield (name,), "its name must be letters, digits and '_', and start with no digit"
        elif any(ord(character) < 32 for character in value):
            yield (name,), "must be one line of text"
