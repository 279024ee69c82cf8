"""What a file is by its first bytes, whatever its name says."""

from __future__ import annotations

from microagg_core.data.formats.inputs.csv import CsvText
from microagg_core.data.formats.options import compression_of
from microagg_core.data.formats.reading import format_of, input_formats, refuse_foreign
from microagg_core.data.places import Input
from microagg_core.errors import DataError
from microagg_core.store.inputs import InputFile, open_input
from microagg_core.store.urls import shown

#: Enough to know a format by, and a first line of text.
_HEAD_BYTES = 4096
_PACKED = {b"\x1f\x8b": ("gzip", ".gz"), b"\x28\xb5\x2f\xfd": ("zstd", ".zst")}


def format_by_content(first: InputFile, source: Input) -> str:
    """The format of a file by what is in it; text of any ending is CSV.

    Raises:
        DataError: it is empty, of a format that is not read here, or not what its ending says.
    """
    place, ending = shown(first.url), format_of(first.url)
    with open_input(first.url, source.storage_options) as file:
        packed = file.read(_HEAD_BYTES)
        if not packed:
            raise DataError(f"{place} is empty; check where it came from")
        _refuse_other_packing(packed, first.url)
        head = packed
        if compression_of(first.url):
            head = CsvText(file, first.url, n_fetched=_HEAD_BYTES).read(_HEAD_BYTES)
            if _marked(head):
                raise DataError(f"{place} is {_marked(head)} within {compression_of(first.url)}; unpack it")
    content = _marked(head) or "csv"
    refuse_foreign(head, place)
    if ending and ending != content:
        what = "text" if content == "csv" else content
        fitting = next(form.endings[0] for form in input_formats() if form.name == content)
        raise DataError(f"{place} holds {what}, not {ending} as its ending says; rename it to end in {fitting}")
    return content


def _marked(head: bytes) -> str | None:
    return next((form.name for form in input_formats() if head.startswith(form.marks)), None)


def _refuse_other_packing(head: bytes, url: str) -> None:
    said = compression_of(url)
    actual = next(((name, end) for mark, (name, end) in _PACKED.items() if head.startswith(mark)), None)
    if actual and said != actual[0]:
        raise DataError(f"{shown(url)} is packed with {actual[0]}; rename it to end in .csv{actual[1]}")
    if said and not actual:
        raise DataError(f"{shown(url)} is not packed with {said}, as its ending says; rename it")
