"""Prefect's side of a release: the flow and its runs, a server where none is named, artifacts.

Here without Prefect: it takes seconds to load, and need not be installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def names_prefect_server(environment: Mapping[str, str]) -> bool:
    """Whether the environment or a profile names a Prefect server."""
    if "PREFECT_API_URL" in environment:
        return True
    try:
        home = Path(environment.get("PREFECT_HOME") or Path("~/.prefect").expanduser())
        return "PREFECT_API_URL" in (home / "profiles.toml").read_text(encoding="utf-8")
    except (OSError, ValueError, RuntimeError):  # a user without a home has no profile either
        return False
