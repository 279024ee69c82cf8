"""What a run leaves about itself, however it ends: its outcome, events of its lineage, lines of a log."""
