r"""Released blocking values under ``merge``: text, with a list, or a star, where values were merged.

A value is written as its text with ``\`` and ``|`` escaped by a backslash; a list is the values joined by ``|``; a
missing value is a null on its own and ``\N`` in a list. So a list never looks like a value, ``\N`` never like a
text, and both can be read back: see :func:`parse_label`. Where stars stand for merged values, a value that is one
itself is escaped too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from microagg_core.arrays import Bools, Ints
from microagg_core.blocks.merging import prefix_groups
from microagg_core.data.hierarchies import Hierarchy
from microagg_core.data.tables.ordering import ranks
from microagg_core.errors import InternalError

_NULL = "\\N"
#: Stands for any value, where labels do not list those that were merged.
ANY = "*"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("|", "\\|")


def label_of(values: Sequence[str | None]) -> str | None:
    r"""Write the values that a stratum holds, in their sorted order, as a label.

    >>> label_of(["east", "west", None]), label_of(["east"]), label_of([None])
    ('east|west|\\N', 'east', None)
    """
    if len(values) == 1:
        return None if values[0] is None else _escaped(values[0])
    return "|".join(_NULL if value is None else _escaped(value) for value in values)


def labels_of_values(texts: pa.Array, escape_any: bool = False) -> pa.Array:
    r"""Write labels of strata that hold one value each: :func:`label_of` for all values at once.

    ``escape_any``: whether stars stand for other values, so that a value ``*`` has to be told from them.

    >>> labels_of_values(pa.array(["a|b", "north", None, "*"])).to_pylist()
    ['a\\|b', 'north', None, '*']
    >>> labels_of_values(pa.array(["*", "**"]), escape_any=True).to_pylist()
    ['\\*', '**']
    """
    labels = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), "|", "\\|")
    return pc.if_else(pc.equal(labels, ANY), "\\" + ANY, labels) if escape_any else labels


def parse_label(label: str | None) -> list[str | None]:
    r"""Read the values that a label stands for.

    >>> parse_label("a\\|b|\\N"), parse_label(None), parse_label("")
    (['a|b', None], [None], [''])
    """
    if label is None:
        return [None]
    values: list[str | None] = []
    text: list[str] = []
    is_null = False
    characters = iter(label)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped == "N":
                is_null = True
            else:
                text.append(escaped)
        elif character == "|":
            values.append(None if is_null else "".join(text))
            text, is_null = [], False
        else:
            text.append(character)
    values.append(None if is_null else "".join(text))
    return values


#: ``exact``: the values in their own types, as no keys are merged.
LabelForm = Literal["exact", "list", "parent", "star"]


def label_strata(
    codes: Ints,
    values: list[pa.Array],
    merged: Ints,
    depth: Ints,
    keep: Bools,
    form: LabelForm,
    released_types: list[pa.DataType],
    hierarchies: Sequence[Hierarchy | None] = (),
) -> tuple[Ints, pa.Table]:
    """Find the label of each kept stratum, or -1, and make the table of labels, sorted by what they say.

    Keys, ascending, have a code of their pattern and of each blocking value; ``values`` are what these stand for.
    ``merged`` is the stratum of each key, ``depth`` how many leading codes of each stratum are exact. Instead of a list
    columns with ``hierarchies`` get the least common parent of what was merged.
    """
    first = np.unique(merged, return_index=True)[1]
    attributes = range(1, codes.shape[1])
    columns = [values[j].take(pa.array(codes[first, j])) for j in attributes]
    if form != "exact":
        texts = [labels_of_values(values[j].cast(pa.string()), escape_any=form != "list") for j in attributes]
        columns = [text.take(pa.array(codes[first, j])) for text, j in zip(texts, attributes, strict=True)]
    if form == "list":
        columns = _with_lists(columns, codes, merged, values, hierarchies or [None] * len(columns))
    elif form != "exact":
        exact = _beside_merged(codes[first], depth) if form == "star" else depth
        columns = [pc.if_else(pa.array(exact > j), c, ANY) for j, c in zip(attributes, columns, strict=True)]
    kept = np.flatnonzero(keep)
    numbers, places = _distinct_rows([ranks(column)[kept] for column in columns], len(kept))
    ids = np.full(len(keep), -1, dtype=np.int64)
    ids[kept] = numbers
    listed = [
        column.take(pa.array(kept[places])).cast(kind) for column, kind in zip(columns, released_types, strict=True)
    ]
    names = ["label", *(f"b{j}" for j in range(len(listed)))]
    return ids, pa.table([pa.array(np.arange(len(places))), *listed], names=names)


def _beside_merged(codes: Ints, depth: Ints) -> Ints:
    """Count the codes of each stratum that stay exact where nobody beside a merged one keeps more than it."""
    exact = depth.copy()
    for level in range(1, codes.shape[1]):
        group = prefix_groups(codes[:, :level])
        has_merged = np.bincount(group, weights=depth == level) > 0
        exact = np.where(has_merged[group], np.minimum(exact, level), exact)
    return exact


def _with_lists(
    columns: list[pa.Array],
    codes: Ints,
    merged: Ints,
    values: list[pa.Array],
    hierarchies: Sequence[Hierarchy | None],
) -> list[pa.Array]:
    """Label strata with lists of values, or with parents of them, where several keys went to one."""
    sizes = np.bincount(merged)
    several = np.flatnonzero(sizes > 1)
    by_stratum, bounds = np.argsort(merged, kind="stable"), np.append(0, np.cumsum(sizes))
    lists = []
    for j, (column, hierarchy) in enumerate(zip(columns, hierarchies, strict=True), start=1):
        own = (codes[by_stratum[bounds[s] : bounds[s + 1]], j] for s in several.tolist())
        texts = [_merged_label(of_stratum, values[j], hierarchy) for of_stratum in own]
        places = np.full(len(sizes), -1)
        places[several] = np.arange(len(several))
        chosen = np.where(places >= 0, len(column) + places, np.arange(len(sizes)))
        lists.append(pa.concat_arrays([column, pa.array(texts, pa.string())]).take(pa.array(chosen)))
    return lists


def _merged_label(codes: Ints, values: pa.Array, hierarchy: Hierarchy | None) -> str | None:
    """Write a stratum's values as one label; one that does not read back to just them would be a wrong release."""
    texts: list[str | None] = values.take(pa.array(np.unique(codes))).cast(pa.string()).to_pylist()
    if hierarchy is not None and len(texts) > 1:
        return label_of([hierarchy.name(hierarchy.least_common(texts))])
    label = label_of(texts)
    if parse_label(label) != texts:
        raise InternalError("a bug: a merged blocking label does not read back to its values; please report it")
    return label


def _distinct_rows(columns: list[Ints], n_rows: int) -> tuple[Ints, Ints]:
    """Number rows among the distinct ones, in ascending order, and find where each of those is first met."""
    if not columns:
        return np.zeros(n_rows, dtype=np.int64), np.arange(min(n_rows, 1))
    order = np.lexsort(columns[::-1])
    differs = np.zeros(max(n_rows - 1, 0), dtype=np.bool_)
    for column in columns:
        differs |= column[order][1:] != column[order][:-1]
    ordered = np.concatenate([np.zeros(min(n_rows, 1), dtype=np.int64), np.cumsum(differs)])
    numbers = np.empty(n_rows, dtype=np.int64)
    numbers[order] = ordered
    return numbers, order[np.unique(ordered, return_index=True)[1]]
