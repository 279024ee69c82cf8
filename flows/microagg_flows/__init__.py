"""The orchestration of a release: stages, cluster, Prefect flow, and the command line."""
