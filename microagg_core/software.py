"""What software makes a release: the versions that decide its bytes, and a digest of this project's own sources."""

from __future__ import annotations


def software() -> dict[str, str]:
    """Placeholder until the publish branch lands."""
    return {"microagg": "0.1.0"}
