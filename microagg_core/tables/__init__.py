"""Tables in and out: input parts, released files, slices of staged rows, and hashes of rows."""
