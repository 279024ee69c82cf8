"""What a text of a CSV file stands for: whole numbers, decimals, days, codes, words for a missing value, or just text.

The patterns are a table, which takes no more than the reader does: what is called a number here is read as one.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.data.tables.hashing import one_array

#: Words that are known to stand for a missing value.
NULL_WORDS = (
    "", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "NULL", "Null", "null", "None", "none", "missing", "Missing",
    ".", "-", "--", "?",
)  # fmt: skip
_EXPONENT = r"([eE][-+]?[0-9]+)?"
_DAY = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_CLOCK = r"[ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?"
#: What a whole text may be, in this order: the first that fits counts.
PATTERNS = {
    # Numbers with leading zeros, and such as have more digits than a whole number holds, are names of something.
    "code": r"-?0[0-9][0-9.,]*|-?[0-9]{19,}",
    "whole": r"-?[0-9]+",
    "decimal": rf"-?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+){_EXPONENT}",
    "either": r"-?[1-9][0-9]{0,2},[0-9]{3}",
    "comma": rf"-?[0-9]+,[0-9]+{_EXPONENT}",
    "thousands": r"-?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]+)?|-?[1-9][0-9]{0,2}([. '][0-9]{3})+(,[0-9]+)?"
    r"|-?[1-9][0-9]{0,2}([ '][0-9]{3})+(\.[0-9]+)?",
    "truth": r"true|True|TRUE|false|False|FALSE",
    "day": _DAY,
    "moment": _DAY + _CLOCK,
    "zoned": _DAY + _CLOCK + r" ?(Z|UTC|[-+][0-9]{2}:?[0-9]{2})",
    "other day": r"[0-9]{1,2}[./-][0-9]{1,2}[./-]([0-9]{4}|[0-9]{2})([ T].*)?"
    r"|[0-9]{4}[./][0-9]{1,2}[./][0-9]{1,2}([ T].*)?|[0-9]{1,2}[- ][A-Za-z]{3}[- ]([0-9]{4}|[0-9]{2})",
    "clock": r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?",
    "quantity": r"-?[0-9][0-9.,]* ?[%€$£]|[€$£] ?-?[0-9][0-9.,]*|\+[0-9][0-9.,]*",
}
#: What is said of whole numbers that read as days.
DAY_NUMBERS = "days written as numbers (20260131), whose mean is no day: write them 2026-01-31"
DAY_NUMBER = r"(19|20)[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])"
#: As few numbers may be days by chance.
_LEAST_DAY_NUMBERS = 5
#: Where fewer of a column's values than this are something else, the column was meant to be of one notation.
_ODD_SHARE = 0.05

_TYPES = {
    frozenset({"whole"}): "int64",
    frozenset({"truth"}): "bool",
    frozenset({"day"}): "date",
    frozenset({"day", "moment"}): "timestamp",
}
_NUMBERS = {"whole", "decimal", "either", "comma"}
#: What is text as it should be, though it is made of digits.
CODES = "numbers with leading zeros, or too long for a number: codes"
#: Why a column that is no plain text has to stay text, by the notation that is in the way.
_IN_THE_WAY = {
    "day number": DAY_NUMBERS,
    "code": CODES,
    "thousands": "numbers with thousands separators, which the reader does not take: write them without",
    "either": "numbers such as 1,234, whose comma may be a decimal mark or not: write them otherwise",
    "zoned": "times with a time zone, which the reader does not take: write them without, all in one zone",
    "other day": "dates in another notation than 2026-01-31, which the reader does not take: write them so",
    "clock": "times of day, which the reader does not take: write minutes as a number",
    "quantity": "numbers with a sign or unit (+ % or a currency), which the reader does not take: write them without",
}


def notation_counts(column: pa.Array | pa.ChunkedArray) -> dict[str, int]:
    """Count the records of a column whose text is of each notation.

    >>> [*notation_counts(pa.array(["41", "007", "1.5", "1,5", "1,234", "2026-01-31", "31.1.2026", "NA", "x", "y"]))]
    ['null', 'code', 'whole', 'decimal', 'either', 'comma', 'day', 'other day', 'text']
    >>> notation_counts(pa.array(["1", "2", "x", "x"]))
    {'whole': 2, 'text': 2}
    """
    counted = pc.value_counts(one_array(column))
    values, counts = counted.field("values"), counted.field("counts")
    sums: dict[str, int] = {}

    def take(name: str, fits: pa.Array) -> None:
        nonlocal values, counts
        if n := pc.sum(pc.filter(counts, fits)).as_py():
            sums[name] = n
        rest = pc.invert(fits)
        values, counts = pc.filter(values, rest), pc.filter(counts, rest)

    take("null", pc.is_in(values, pa.array(NULL_WORDS, values.type)))
    for name, pattern in PATTERNS.items():
        take(name, pc.match_substring_regex(values, rf"\A(?:{pattern})\z"))
    take("text", pc.is_valid(values))
    return sums


def comma_is_decimal(columns: Collection[dict[str, int]]) -> bool:
    """Whether a file's decimal mark is a comma: more columns have it so than otherwise.

    >>> comma_is_decimal([{"whole": 3, "comma": 2}, {"text": 5}, {"comma": 5}, {"decimal": 5}])
    True
    """

    def n_with(notation: str) -> int:
        return sum(notation in column and _but_null(column) <= _NUMBERS for column in columns)

    return n_with("comma") > n_with("decimal")


def declared_type(column: dict[str, int], is_comma: bool) -> str | None:
    """The type that a spec may declare for a column of these notations; None where it has to stay text.

    >>> declared_type({"whole": 9, "null": 1}, False), declared_type({"whole": 9, "comma": 1}, True)
    ('int64', 'float64')
    >>> declared_type({"whole": 9, "comma": 1}, False), declared_type({"whole": 9, "code": 1}, False)
    (None, None)
    """
    notations = _but_null(column)
    decimals = {"whole", "comma", "either"} if is_comma else {"whole", "decimal"}
    for of_type, name in _TYPES.items():
        if notations and notations <= of_type:
            return name
    is_decimal = notations <= decimals and bool(notations & {"comma", "decimal"})
    return "float64" if is_decimal else None


def why_text(column: dict[str, int]) -> str:
    """Why a column without a type is none of numbers or days, where it looks as if it were meant to be.

    >>> why_text({"whole": 97, "text": 1})
    '1 % of its values are no numbers: correct them, or write them as a null word'
    """
    notations = _but_null(column)
    for name, sentence in _IN_THE_WAY.items():
        if name in notations and "text" not in notations:
            return sentence
    n = sum(column[name] for name in notations)
    numbers = sum(column[name] for name in notations & _NUMBERS)
    if notations <= _NUMBERS and notations:
        return "numbers with decimal points and with decimal commas, of which the reader takes one: write them alike"
    if numbers and n - numbers <= _ODD_SHARE * n:
        share = f"{100 * (n - numbers) / n:.1g}"
        return f"{share} % of its values are no numbers: correct them, or write them as a null word"
    return ""


def are_day_numbers(values: pa.Array) -> bool:
    """Whether whole numbers all read as days, such as 20130131: their mean would be none.

    >>> are_day_numbers(pa.array(["20130131", "20130201", "19991231", "20000101", "20240229"]))
    True
    """
    rest = pc.filter(values, pc.invert(pc.is_in(values, pa.array(NULL_WORDS, values.type))))
    return len(rest) >= _LEAST_DAY_NUMBERS and bool(
        pc.all(pc.match_substring_regex(rest, rf"\A(?:{DAY_NUMBER})\z")).as_py()
    )


def _but_null(column: dict[str, int]) -> set[str]:
    return column.keys() - {"null"}


def null_words_in(texts: pa.Array | pa.ChunkedArray) -> tuple[str, ...]:
    """List the words for a missing value that are among some texts.

    >>> null_words_in(pa.array(["NA", "1", ""]))
    ('', 'NA')
    """
    there = set(texts.filter(pc.is_in(texts, pa.array(NULL_WORDS, texts.type))).unique().to_pylist())
    return tuple(word for word in NULL_WORDS if word in there)
