"""Groups made by scans over the records that remain: the algorithms as they are told, and the optimal ones."""
