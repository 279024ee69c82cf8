"""Prefect's side of a release: the flow and its runs, a server where none is named, artifacts."""
