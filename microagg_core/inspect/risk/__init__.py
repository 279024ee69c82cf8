"""Disclosure risk of a release, for the operator alone: it stays in the audit and is never published.

Measured is what would be published: the rows of a released file, beside what the input has of the same records. A
measure is one file here; :func:`microagg_core.inspect.risk.tables.measure_risk` measures two tables.
"""

#: In the order of the figures; others follow by name.
ORDER = ("sizes", "linkage", "intervals", "inference", "uniqueness")
