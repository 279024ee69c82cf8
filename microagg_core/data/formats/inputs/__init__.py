"""Input formats, one file each; :mod:`microagg_core.data.formats.reading` reads them."""

ORDER = ("parquet", "csv", "arrow")
