"""What was done to the data, column by column, and why: in words for whoever uses them."""

from __future__ import annotations

from microagg_core.group.algorithms import algorithms
from microagg_core.release.manifest import ColumnEntry, Manifest
from microagg_core.release.pages.document import Block, Name, Rows, Section, Text, bullets, listed, paragraph
from microagg_core.release.pages.release_words import in_role, units_word

#: More names than these in one sentence nobody reads; the table of columns has them all.
_MOST_NAMED = 12


def names(columns: tuple[ColumnEntry, ...]) -> Text:
    """The columns' names in a sentence; many are counted."""
    if len(columns) > _MOST_NAMED:
        return (f"{len(columns)} columns",)
    return listed(Name(column.name) for column in columns)


def method_section(manifest: Manifest) -> Section:
    """What was done, role by role."""
    blocks = [*_grouped(manifest), *_kept_exactly(manifest), *_as_they_are(manifest), paragraph(_ORDER)]
    return Section("method", "What was done to the data", tuple(blocks))


_ORDER = (
    "Rows stand in no order that means anything, and no row has a number or a name: columns that name a person or "
    "firm are not in the release."
)


def _grouped(manifest: Manifest) -> list[Block]:
    quasi, blocking = in_role(manifest, "quasi_identifier"), in_role(manifest, "blocking")
    within: Text = (" that share ", *names(blocking)) if blocking else ()
    return [
        paragraph(
            "Somebody may know ",
            *names(quasi),
            " of a person or firm from elsewhere, and look for the record that has them. So records",
            *within,
            f" were put into groups of at least {manifest.k} {units_word(manifest)} that are as alike as possible, and "
            "each of these values was replaced by the mean of its group (microaggregation). All records of a group "
            "look the same in them.",
        ),
        bullets(*_details(manifest, several=len(quasi) > 1)),
        _rounding_table(manifest, quasi),
    ]


def _details(manifest: Manifest, *, several: bool) -> list[Text]:
    said: list[Text] = [("Groups: ", *_algorithm(manifest))]
    if several:
        said.append(("Numbers are put on one scale first, so that each column counts as much as the others.",))
    if manifest.missing == "separate":
        said.append(("A missing value stays missing; records that lack the same columns were grouped together.",))
    if manifest.reproducible:
        return [*said, ("The same data, settings and seed give the same release, to the byte.",)]
    return [*said, ("The same data and settings give other groups each time: how good they are depended on time.",)]


def _algorithm(manifest: Manifest) -> Text:
    name, parameters = manifest.algorithm.name, manifest.algorithm.parameters
    info = algorithms().get(name)
    what = f" ({info.summary})" if info else ""
    with_these = ", ".join(f"{key}={value}" for key, value in parameters.items())
    best: Text = ()
    if chosen := manifest.losses.chosen:
        best = (", of which those that lost least somewhere are ", *listed(Name(one) for one in chosen))
    return (
        Name(name),
        f"{what}{f', with {with_these}' if with_these else ''}",
        *best,
        f"; {_REFINED.get(str(manifest.refine), _FOR_A_TIME)}.",
    )


_FOR_A_TIME = "records were then moved between groups for a limited time, where less was lost so"
_REFINED = {
    "off": "its groups were taken as they are",
    "fast": "records were then moved between groups where less was lost so",
    "thorough": "records were then moved between groups, and groups made anew, where less was lost so",
}


def _rounding_table(manifest: Manifest, quasi: tuple[ColumnEntry, ...]) -> Rows:
    """A row for each way of rounding, with all columns that it holds for."""
    columns: dict[str, list[Name]] = {}
    for column in quasi:
        words = rounding_words(column, manifest.rounding.get(column.name))
        columns.setdefault(words, []).append(Name(column.name))
    rows = tuple(((words,), listed(of)) for words, of in columns.items())
    return Rows("How means are rounded", ("means are", "of the columns"), rows)


def rounding_words(column: ColumnEntry, rule: object) -> str:
    """How a column's means are rounded.

    >>> rounding_words(ColumnEntry(name="age", type="int8", role="quasi_identifier"), "type")
    'whole numbers, as the values were'
    >>> rounding_words(ColumnEntry(name="income", type="double", role="quasi_identifier"), 0.001)
    'rounded to the nearest multiple of 0.001'
    """
    if rule == "none":
        return "not rounded"
    if isinstance(rule, int | float) and not isinstance(rule, bool):
        return f"rounded to the nearest multiple of {rule:.15g}"
    starts = {
        "int": "whole numbers, as the values were",
        "uint": "whole numbers, as the values were",
        "decimal": "rounded to as many decimals as the values had",
        "date": "days, as the values were",
        "timestamp": "rounded to the unit in which the values were",
        "bool": "true or false, whichever the group has more of",
    }
    fitting = next((words for start, words in starts.items() if column.type.startswith(start)), None)
    return fitting or "not rounded beyond what the column's type holds"


def _kept_exactly(manifest: Manifest) -> list[Block]:
    blocking = in_role(manifest, "blocking")
    if not blocking:
        return []
    are, what = ("are", "These columns are") if len(blocking) > 1 else ("is", "This column is")
    kept = f" may be known from elsewhere as well, and {are} kept: records with other values were never put into one "
    start, few = (*names(blocking), f"{kept}group. "), f"fewer than {manifest.k} {units_word(manifest)} have"
    if manifest.undersized == "suppress":
        return [paragraph(*start, f"Records of a combination that {few} were withheld.")]
    if manifest.undersized != "merge":
        return [paragraph(*start, f"Every combination of values has at least {manifest.k}.")]
    merged = f"A combination that {few} was merged with a neighbour, the last column's values first. "
    return [paragraph(*start, f"{merged}{what} released as text:"), _LABELS]


_LABELS = bullets(
    (Name("b|c"), " stands for values that were merged: a record has one of them."),
    (Name("*"), " stands for values that were merged and are not listed."),
    (Name("\\N"), " within such a list is a missing value."),
    "A bar, star or backslash that belongs to a value itself has a backslash before it.",
)


def _as_they_are(manifest: Manifest) -> list[Block]:
    confidential = in_role(manifest, "confidential")
    blocks: list[Block] = []
    if confidential:
        came = " are released as they came" if len(confidential) > 1 else " is released as it came"
        why = "Nobody is expected to know such values from elsewhere, and they are what the release is for."
        blocks.append(paragraph(*names(confidential), f"{came}, record by record. {why}"))
    return [*blocks, *(paragraph(words) for words in (withheld_words(manifest), leavers_words(manifest)) if words)]


def withheld_words(manifest: Manifest) -> str:
    """Whether records of the source are missing, as far as that may be told."""
    if manifest.suppressed == 0:
        return ""
    if manifest.suppressed is None:
        return "Whether records of the source are withheld, and how many, is not told: it could tell of single ones."
    if isinstance(manifest.suppressed, int):
        return f"{manifest.suppressed:,} records of the source are withheld."
    return f"Some records of the source are withheld, at least {manifest.k}. How many is not told."


def leavers_words(manifest: Manifest) -> str:
    """Say that records of those who left are in the release, and how many where that is told.

    It is said of every night in which they may be, and of no other.
    """
    ghosts = manifest.series.ghosts if manifest.series is not None else None
    if ghosts is None:
        return ""
    number = f"{ghosts:,} records are" if isinstance(ghosts, int) else "Records may be"
    return (
        f"{number} of {units_word(manifest)} that have left the source since an earlier release. They have the values "
        "with which they were last released, and so has everybody who shares a combination with them."
    )
