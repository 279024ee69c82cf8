"""File formats, a file each: inputs as they come (``inputs/``), and releases as they are published (``released/``).

A format is one file there, named as a spec names it, or an entry point of another distribution. The file has its facts,
such as endings and code that reads it; nothing outside this room decides by a format's name.
"""

from __future__ import annotations

from microagg_core import registry

#: Where formats are, and the groups of entry points that add to them.
INPUTS = ("microagg_core.data.formats.inputs", "microagg.formats.inputs")
RELEASED = ("microagg_core.data.formats.released", "microagg.formats.released")


def input_names() -> tuple[str, ...]:
    """Names of input formats; none is loaded.

    >>> input_names()
    ('parquet', 'csv', 'arrow')
    """
    return registry.names(*INPUTS)


def released_names() -> tuple[str, ...]:
    return registry.names(*RELEASED)
