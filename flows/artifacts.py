"""What Prefect keeps of a release: a markdown summary and a table of stages."""

from __future__ import annotations

from typing import Any

from microagg_core.reporting.release_report import as_markdown


def keep_artifacts(document: dict[str, Any]) -> None:
    """Create the artifacts of a finished release in the current flow run."""
    from prefect.artifacts import create_markdown_artifact, create_table_artifact

    create_markdown_artifact(as_markdown(document), key="microagg-release", description="What was released")
    if document["stages"]:
        create_table_artifact(document["stages"], key="microagg-stages", description="What each stage took")
