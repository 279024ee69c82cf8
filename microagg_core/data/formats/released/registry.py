"""Every released format by its name in a spec, which is that of its file in this folder.

A new format is one file here, with its ``FORMAT``, and one name in ``spec/formats.py``. It is loaded when asked for.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from microagg_core.data.formats.released.contract import ReleasedFormat, SaysFormat
from microagg_core.spec.formats import ReleasedFormatName


def released_format(said: SaysFormat) -> ReleasedFormat:
    """The format that a spec's ``output`` or a manifest says, with its options.

    >>> from microagg_core.spec.places import Output
    >>> released_format(Output(url="out", format="csv")).in_manifest()["csv"].delimiter
    ','
    """
    return _named(said.format).of(said)


@cache
def _named(name: ReleasedFormatName) -> type[ReleasedFormat]:
    form: type[ReleasedFormat] = import_module(f"microagg_core.data.formats.released.{name}").FORMAT
    return form
