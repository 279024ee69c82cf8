"""What any check of a release comes to: the gate's, which the manifest publishes, and those of who verifies it."""

from __future__ import annotations

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Check:
    """One thing that was looked at: its outcome, and counts and column names that explain it; never a value."""

    name: str
    passed: bool
    detail: str = ""
