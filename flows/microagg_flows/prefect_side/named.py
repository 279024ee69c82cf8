"""Whether a Prefect server is named: asked before Prefect is loaded, and where it is not installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def names_prefect_server(environment: Mapping[str, str]) -> bool:
    """Whether a Prefect server is named, in the environment or a profile; loading Prefect to ask takes seconds."""
    if "PREFECT_API_URL" in environment:
        return True
    try:
        home = Path(environment.get("PREFECT_HOME") or Path("~/.prefect").expanduser())
        return "PREFECT_API_URL" in (home / "profiles.toml").read_text(encoding="utf-8")
    except (OSError, ValueError, RuntimeError):  # a user without a home has no profile either
        return False
