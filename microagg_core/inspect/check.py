"""Outcomes of checks: the gate's, which the manifest publishes, and those of who verifies a release."""

from __future__ import annotations

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Check:
    """Outcome of one check, with counts and column names that explain it; never a value."""

    name: str
    passed: bool
    detail: str = ""
