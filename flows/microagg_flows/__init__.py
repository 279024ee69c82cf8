"""The orchestration of a release: its stages, who does their tasks, Prefect's side of it, and the command line."""
