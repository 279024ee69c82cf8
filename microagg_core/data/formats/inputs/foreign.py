"""Formats that are not read here, by their first bytes."""

from __future__ import annotations

from microagg_core.errors import DataError

_AS_PARQUET = "write it as Parquet or CSV first"
_AS_CSV = "save its sheet as CSV UTF-8"
#: First bytes of formats that are not read here: what they are, and what to do.
_FOREIGN = {
    b"PK\x03\x04": ("a zip archive, as Excel workbooks are too", f"unpack it, or {_AS_CSV}"),
    b"\xd0\xcf\x11\xe0": ("an Office file, such as an old Excel workbook", _AS_CSV),
    b"BZh": ("packed with bzip2", "unpack it, or pack it with gzip or zstd"),
    b"\xfd7zXZ": ("packed with xz", "unpack it, or pack it with gzip or zstd"),
    b"7z\xbc\xaf": ("a 7z archive", "unpack it"),
    b"$FL": ("a file of SPSS", _AS_PARQUET),
    b"<stata_dta>": ("a file of Stata", _AS_PARQUET),
    b"\0" * 12 + b"\xc2\xea\x81\x60": ("a file of SAS", _AS_PARQUET),
    b"RDX": ("a file of R", _AS_PARQUET),
    b"SQLite format 3": ("an SQLite database", _AS_PARQUET),
    b"FEA1": ("Feather of version 1", "write it again as version 2, or as Parquet"),
    b"Obj\x01": ("an Avro file", _AS_PARQUET),
    b"ORC": ("an ORC file", _AS_PARQUET),
    b"%PDF": ("a PDF", "ask for the data as CSV"),
}
#: First characters of texts that are no tables.
_MARKUP = {
    "<?xml": "XML", "<!doctype": "a page of HTML", "<html": "a page of HTML", '{"': "JSON", "[{": "JSON",
}  # fmt: skip


def refuse_foreign(head: bytes, place: str) -> None:
    """Stop where the first bytes of a file are those of a format that is not read here.

    Raises:
        DataError: naming the format, and what to do.
    """
    for mark, (what, advice) in _FOREIGN.items():
        if head.startswith(mark):
            raise DataError(f"{place} is {what}, which is not read here; {advice}")
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    for text, what in _MARKUP.items():
        if start.startswith(text.encode()):
            raise DataError(f"{place} is {what}, no table of rows and columns; {_AS_PARQUET}")
