"""Events of OpenLineage: which data a run reads and makes, for catalogues that draw where data come from.

By the public schema (openlineage.io/spec): names of files and columns, counts that the manifest publishes, a failure's
sentence. An event is a file; it is sent only where OPENLINEAGE_URL names who takes it.
"""

from __future__ import annotations

import datetime
import json
import os
import urllib.request
import uuid
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from microagg_core.pages.run_results import RunResults
from microagg_core.release.manifest import Manifest
from microagg_core.spec.release import ReleaseSpec
from microagg_core.store.layout import CallLayout
from microagg_core.store.urls import is_local, local_path, shown
from microagg_flows.release import Release

_SCHEMAS = "https://openlineage.io/spec"
_EVENT = f"{_SCHEMAS}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_NAMESPACE = "microagg"
_PATH = "api/v1/lineage"
_SECONDS = 5.0


@dataclass(frozen=True)
class ParentRun:
    """The run of an orchestrator that this one is a part of."""

    id: str
    job: str


class Lineage:
    """The events of one call; two of one run's key, of which the first failed, are two runs."""

    def __init__(self, layout: CallLayout, spec: ReleaseSpec, parent: ParentRun | None = None) -> None:
        self._layout = layout
        self._spec = spec
        self._parent = parent
        #: The same in all events of this call, and in its outcome.
        self.run_id = str(uuid.uuid4())
        # Who does not take the first event would keep the user waiting for nothing.
        self._is_taken = True

    def event(self, kind: str, release: Release | None, results: RunResults | None) -> dict[str, Any]:
        """START, COMPLETE, FAIL or ABORT."""
        run = {"runId": self.run_id, "facets": {**self._parent_facet(), **_run_facets(release, results)}}
        manifest = release.committed if release else None
        return {
            "eventType": kind,
            "eventTime": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
            "run": run,
            "job": {"namespace": _namespace(), "name": self._layout.series},
            "inputs": [_dataset(self._spec.input.url)],
            "outputs": [{**_dataset(self._spec.output.url), **_released(manifest)}],
            "producer": _producer(),
            "schemaURL": _EVENT,
        }

    def _parent_facet(self) -> dict[str, Any]:
        if self._parent is None:
            return {}
        schema = "facets/1-0-1/ParentRunFacet.json"
        run, job = {"runId": self._parent.id}, {"namespace": _namespace(), "name": self._parent.job}
        return {"parent": _facet(schema, run=run, job=job)}

    def post(self, document: dict[str, Any]) -> str:
        """Send an event to whom OPENLINEAGE_URL names; a sentence where it was not taken, else nothing."""
        url = os.environ.get("OPENLINEAGE_URL", "")
        if not url or not self._is_taken:
            return ""
        try:
            with urllib.request.urlopen(_request(url, document), timeout=_SECONDS):
                return ""
        except (OSError, ValueError) as error:
            self._is_taken = False
            reason = getattr(error, "code", None) or type(error).__name__
            return (
                f"{shown(url)} did not take the lineage event ({reason}); it is in the audit; correct OPENLINEAGE_URL"
            )


def _namespace() -> str:
    return os.environ.get("OPENLINEAGE_NAMESPACE", _NAMESPACE)


def _request(url: str, document: dict[str, Any]) -> urllib.request.Request:
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("OPENLINEAGE_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    target = f"{url.rstrip('/')}/{os.environ.get('OPENLINEAGE_ENDPOINT', _PATH).lstrip('/')}"
    if not target.startswith(("http://", "https://")):
        raise ValueError("not an address of the web")
    return urllib.request.Request(target, json.dumps(document).encode(), headers, method="POST")


def _producer() -> str:
    return f"urn:microagg:{version('microagg')}"


def _facet(schema: str, **fields: Any) -> dict[str, Any]:
    name = schema.rpartition("/")[2].removesuffix(".json")
    return {"_producer": _producer(), "_schemaURL": f"{_SCHEMAS}/{schema}#/$defs/{name}", **fields}


def _run_facets(release: Release | None, results: RunResults | None) -> dict[str, Any]:
    facets = {}
    if release is not None and release.key:
        facets["microagg"] = {
            "_producer": _producer(),
            "_schemaURL": f"{_SCHEMAS}/2-0-2/OpenLineage.json#/$defs/RunFacet",
        }
        facets["microagg"] |= {"id": release.identity, "key": release.key}
    if results is not None and results.sentence and results.exit_code:
        facets["errorMessage"] = _facet(
            "facets/1-0-0/ErrorMessageRunFacet.json", message=results.sentence, programmingLanguage="Python"
        )
    return facets


def _dataset(url: str) -> dict[str, Any]:
    """A dataset as OpenLineage names it: the store, and the path in it.

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
    """What is known of the output once it is there: columns, records, bytes."""
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
