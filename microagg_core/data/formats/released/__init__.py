"""Released formats, one file each; :mod:`microagg_core.data.formats.writing` hands them out."""

ORDER = ("parquet", "csv", "arrow")
