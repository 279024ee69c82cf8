"""What a release of some size takes, without its data: the real planner, and figures measured on smaller releases."""
