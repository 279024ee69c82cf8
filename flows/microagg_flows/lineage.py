"""Events of OpenLineage: which data a run reads and makes, for catalogues that draw where data come from.

By the public schema (openlineage.io/spec): names of files and columns, counts that the manifest publishes, a failure's
sentence. An event is a file; it is sent only where OPENLINEAGE_URL names who takes it. By hand: OpenLineage's client
would be one more package for one POST, and its own log, configuration files and retries.
"""

from __future__ import annotations

import datetime
import json
import os
import urllib.request
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from microagg_core.release.manifest import Manifest
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.urls import is_local, local_path, shown
from microagg_flows.release import Release

_SCHEMAS = "https://openlineage.io/spec"
_SCHEMA = f"{_SCHEMAS}/2-0-2/OpenLineage.json#/$defs"
#: Seconds that whoever takes events has for an answer.
_SECONDS = 5.0


@dataclass(frozen=True)
class ParentRun:
    """The run of an orchestrator that this one is a part of."""

    id: str
    job: str


def event_of(
    kind: str,
    run_id: str,
    spec: ReleaseSpec,
    parent: ParentRun | None,
    release: Release | None,
    document: dict[str, Any] | None,
) -> dict[str, Any]:
    """Describe a run that has begun or, with the document of its results, ended: START, COMPLETE, FAIL or ABORT.

    Two calls for one run's key, of which the first failed, are two runs.
    """
    return {
        "eventType": kind,
        "eventTime": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        "run": {"runId": run_id, "facets": _run_facets(parent, release, document)},
        "job": {"namespace": _namespace(), "name": spec.name},
        "inputs": [_dataset(spec.input.url)],
        "outputs": [{**_dataset(spec.output.url), **_released(release.committed if release else None)}],
        "producer": _producer(),
        "schemaURL": f"{_SCHEMA}/RunEvent",
    }


def post_event(event: dict[str, Any]) -> str:
    """Send an event to whom OPENLINEAGE_URL names; a sentence where it was not taken, else empty."""
    url = os.environ.get("OPENLINEAGE_URL", "")
    if not url:
        return ""
    try:
        with urllib.request.urlopen(_request(url, event), timeout=_SECONDS):
            return ""
    except (OSError, ValueError) as error:
        reason = getattr(error, "code", None) or type(error).__name__
        return f"{shown(url)} did not take the lineage event ({reason}); it is in the audit; correct OPENLINEAGE_URL"


def _namespace() -> str:
    return os.environ.get("OPENLINEAGE_NAMESPACE", "microagg")


def _request(url: str, event: dict[str, Any]) -> urllib.request.Request:
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("OPENLINEAGE_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    target = f"{url.rstrip('/')}/{os.environ.get('OPENLINEAGE_ENDPOINT', 'api/v1/lineage').lstrip('/')}"
    if not target.startswith(("http://", "https://")):
        raise ValueError("not an address of the web")
    return urllib.request.Request(target, json.dumps(event).encode(), headers, method="POST")


def _producer() -> str:
    return f"urn:microagg:{version('microagg')}"


def _facet(schema: str, **fields: Any) -> dict[str, Any]:
    name = schema.rpartition("/")[2].removesuffix(".json")
    return {"_producer": _producer(), "_schemaURL": f"{_SCHEMAS}/{schema}#/$defs/{name}", **fields}


def _run_facets(parent: ParentRun | None, release: Release | None, document: dict[str, Any] | None) -> dict[str, Any]:
    facets: dict[str, Any] = {}
    if parent is not None:
        run, job = {"runId": parent.id}, {"namespace": _namespace(), "name": parent.job}
        facets["parent"] = _facet("facets/1-0-1/ParentRunFacet.json", run=run, job=job)
    if release is not None and release.key:
        own = {"_producer": _producer(), "_schemaURL": f"{_SCHEMA}/RunFacet"}
        facets["microagg"] = {**own, "id": release.identity, "key": release.key}
    if document is not None and document["sentence"] and document["exit_code"]:
        facets["errorMessage"] = _facet(
            "facets/1-0-0/ErrorMessageRunFacet.json", message=document["sentence"], programmingLanguage="Python"
        )
    return facets


def _dataset(url: str) -> dict[str, Any]:
    """Name a dataset as OpenLineage does: the store, and the path in it.

    >>> _dataset("s3://bucket/people/*.parquet")
    {'namespace': 's3://bucket', 'name': 'people/*.parquet'}
    >>> _dataset("/data/release")
    {'namespace': 'file', 'name': '/data/release'}
    """
    if is_local(url):
        return {"namespace": "file", "name": local_path(url)}
    scheme, _, rest = shown(url).rpartition("::")[2].partition("://")
    authority, _, name = rest.partition("/")
    return {"namespace": f"{scheme}://{authority}", "name": name or "/"}


def _released(manifest: Manifest | None) -> dict[str, Any]:
    """Columns, records and bytes of the output, once it is there."""
    if manifest is None:
        return {}
    fields = [{"name": column.name, "type": column.type, "description": column.role} for column in manifest.columns]
    counts = {"rowCount": manifest.rows, "size": sum(part.bytes for part in manifest.parts)}
    return {
        "facets": {
            "schema": _facet("facets/1-0-0/SchemaDatasetFacet.json", fields=fields),
            "version": _facet("facets/1-0-1/DatasetVersionDatasetFacet.json", datasetVersion=manifest.layout.folder),
        },
        "outputFacets": {"outputStatistics": _facet("facets/1-0-2/OutputStatisticsOutputDatasetFacet.json", **counts)},
    }
