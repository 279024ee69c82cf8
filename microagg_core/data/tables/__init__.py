"""Tables in and out: input parts, released files, slices of rows on their way, and hashes of rows."""
