"""Every input format by its name in a spec, which is that of its file in this folder.

A new format is one file here, with its ``FORMAT``, and one name in ``spec/formats.py``. It is loaded when asked for.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from microagg_core.data.formats.inputs.contract import InputFormat
from microagg_core.spec.formats import InputFormatName
from microagg_core.spec.places import Input


def input_format(source: Input) -> InputFormat:
    """The format of the input.

    >>> input_format(Input(url="people.feather")).name
    'arrow'
    """
    return _named(source.resolved_format)


@cache
def _named(name: InputFormatName) -> InputFormat:
    form: InputFormat = import_module(f"microagg_core.data.formats.inputs.{name}").FORMAT
    return form
