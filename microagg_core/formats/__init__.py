"""Files: inputs as they come, and releases as they are written and read again."""
