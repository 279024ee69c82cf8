"""Input formats, one file each; :mod:`microagg_core.data.formats.reading` is how the rest of the project reads them."""
