"""Say what was done to the data, what may be computed from it, and what was lost."""

from __future__ import annotations

from functools import partial

from microagg_core.data.kinds.metric import metric_words
from microagg_core.group.algorithms import algorithms
from microagg_core.group.metrics.figures import AttributeFigures, CategoryFigures, CorrelationChange, Figures
from microagg_core.group.metrics.statistics import readable
from microagg_core.release.manifest import ColumnEntry, EditEntry, Manifest
from microagg_core.release.pages.document import (
    Block,
    Name,
    Rows,
    Section,
    Share,
    Strong,
    Text,
    bullets,
    listed,
    paragraph,
)
from microagg_core.release.pages.words import deviation_words, in_role, mean_words, units_word, variation_word

#: More names than these in one sentence nobody reads; the table of columns has them all.
_MOST_NAMED = 12


def names(columns: tuple[ColumnEntry, ...]) -> Text:
    if len(columns) > _MOST_NAMED:
        return (f"{len(columns)} columns",)
    return listed(Name(column.name) for column in columns)


def method_section(manifest: Manifest) -> Section:
    blocks = [*_grouped(manifest), *_kept_exactly(manifest), *_as_they_are(manifest), paragraph(_order(manifest))]
    return Section("method", "What was done to the data", tuple(blocks))


_ORDER = (
    "Rows stand in no order that means anything, and no row has a number or a name: columns that name a {unit} are not "
    "in the release."
)
_NOT_TIED = (
    " So the release does not say which records are of one unit. Values that are released as they came may show it, "
    "such as an income that all of a household have: what is promised below holds all the same."
)


def _order(manifest: Manifest) -> str:
    if not manifest.several:
        return _ORDER.format(unit="person or firm")
    order = _ORDER.format(unit="unit or a record of it")
    return order + _NOT_TIED if manifest.has_whole_units else order


def _grouped(manifest: Manifest) -> list[Block]:
    quasi, weight = in_role(manifest, "quasi_identifier"), in_role(manifest, "weight")
    return [
        paragraph(*(_units_grouped(manifest) if manifest.has_whole_units else _records_grouped(manifest))),
        *(paragraph(Name(column.name), _WEIGHT) for column in weight),
        bullets(*_details(manifest, several=len(quasi) > 1)),
        *([_rounding_table(manifest, means)] if (means := averaged(manifest)) else ()),
        *([_blanked_table(manifest)] if manifest.blanked else ()),
    ]


def _records_grouped(manifest: Manifest) -> Text:
    quasi, blocking = in_role(manifest, "quasi_identifier"), in_role(manifest, "blocking")
    within: Text = (" that share ", *names(blocking)) if blocking else ()
    return (
        "Somebody may know ",
        *names(quasi),
        " of a person or firm from elsewhere, and look for the record that has them. So records",
        *within,
        f" were put into groups of at least {manifest.k} {units_word(manifest)} that are as alike as possible, and "
        "each of these values was replaced by ",
        *_replacement(quasi),
        " (microaggregation). All records of a group look the same in them.",
    )


def _units_grouped(manifest: Manifest) -> Text:
    quasi, blocking = in_role(manifest, "quasi_identifier"), in_role(manifest, "blocking")
    within: Text = (" and share ", *names(blocking)) if blocking else ()
    return (
        "A unit, such as a household or a patient, has one record or several. Somebody may know ",
        *names(quasi),
        " of some or all of them from elsewhere, and how many they are, and look for the unit. So units that have "
        "equally many records",
        *within,
        f" were put together, at least {manifest.k} at a time, as alike as possible. Their records were put side by "
        "side, one of each unit, with those that are most like them: these are the groups. Each of these values was "
        "replaced by ",
        *_replacement(quasi),
        " (microaggregation). All records of a group look the same in them, and so do units that were put together.",
    )


def averaged(manifest: Manifest) -> tuple[ColumnEntry, ...]:
    """Columns whose values are means of groups."""
    return tuple(column for column in manifest.columns if column.is_mean)


_WEIGHT = (
    " is the survey weight of each record. It was replaced by the mean weight of its group, in which no record has "
    "more than half of the weight."
)


def _replacement(quasi: tuple[ColumnEntry, ...]) -> Text:
    if all(column.is_mean for column in quasi):
        return (f"the {quasi[0].stands} of its group",)
    if not all(column.is_mean or column.is_category for column in quasi):
        return ("one that stands for its group: its mean or, where there is none, what its kind releases",)
    said: list[Text] = []
    for stands in dict.fromkeys(column.stands for column in quasi):
        own = tuple(column for column in quasi if column.stands == stands)
        said.append((f"the {stands}", *((" of ", *names(own)) if len(own) < len(quasi) else ())))
    *others, last = said
    joined = [word for text in others for word in (*text, ", ")]
    return (*joined[:-1], *((" and ",) if others else ()), *last, " in its group")


def _details(manifest: Manifest, *, several: bool) -> list[Text]:
    said: list[Text] = [("Groups: ", *_algorithm(manifest))]
    if several:
        said.append(_scale(in_role(manifest, "quasi_identifier")))
    for name, of in (manifest.metric or {}).items():
        not_coded = " Released values are means of values all the same: none is top-coded." if of.top else ""
        words = f" counted when groups were made: {metric_words(of.scale, of.top, of.zeros)}.{not_coded}"
        said.append(("How ", Name(name), words))
    if with_missing := tuple(c for c in in_role(manifest, "quasi_identifier") if c.missing):
        said.append(("A missing value of ", *names(with_missing), " is a category like any other."))
    if manifest.several and (per_unit := tuple(c for c in manifest.columns if c.name in manifest.several.per_unit)):
        are = "are" if len(per_unit) > 1 else "is"
        said.append((*names(per_unit), f" {are} the same in all records of a unit, as in the source."))
    if manifest.missing == "separate":
        said.append(("A missing value stays missing; records that lack the same columns were grouped together.",))
    elif manifest.missing == "blank":
        said.append((_BLANKED.format(k=manifest.k, units=units_word(manifest)),))
    if manifest.reproducible:
        return [*said, ("The same data, settings and seed give the same release, to the byte.",)]
    return [*said, ("The same data and settings give other groups each time: how good they are depended on time.",)]


_BLANKED = (
    "A missing value stays missing, and records that lack the same columns were grouped together. Where fewer than {k} "
    "{units} lack the same, values of others were blanked, so that at least {k} do: a value that is missing here may "
    "have been known."
)


def _blanked_table(manifest: Manifest) -> Rows:
    """Say by column how many values were missing, and how many are blanked."""
    few = f"not told, as one of the two is below {manifest.k}"
    counted = {name: (entry.missing, entry.blanked) for name, entry in (manifest.blanked or {}).items()}
    told = {name: [few if n is None else f"{n:,}" for n in numbers] for name, numbers in counted.items()}
    rows = tuple(((Name(name),), (missing,), (blanked,)) for name, (missing, blanked) in told.items())
    head = ("column", "came without a value", "blanked")
    return Rows("Missing values", head, rows, numeric=frozenset({1, 2}))


def _scale(quasi: tuple[ColumnEntry, ...]) -> Text:
    what = "Columns" if any(column.is_category for column in quasi) else "Numbers"
    how = {
        "numbers by how far apart they are": any(column.is_mean for column in quasi),
        "ordered categories by their ranks": any(column.is_ranked for column in quasi),
        "other categories by whether they are equal": any(c.is_category and not c.is_ranked for c in quasi),
    }
    compared = (
        f" Compared are {', '.join(words for words, is_so in how.items() if is_so)}." if what == "Columns" else ""
    )
    more = [word for c in quasi if c.importance for word in (", ", Name(c.name), f" {c.importance:g} times")]
    counts = (", but for those that count more or less: ", *more[1:], ".") if more else (".",)
    return (f"{what} are put on one scale first, so that each column counts as much as the others", *counts, compared)


def _algorithm(manifest: Manifest) -> Text:
    name, parameters = manifest.algorithm.name, manifest.algorithm.parameters
    info = algorithms().get(name)
    what = f" ({info.summary})" if info else ""
    with_these = ", ".join(f"{key}={value}" for key, value in parameters.items())
    best: Text = ()
    if chosen := manifest.losses.chosen:
        tried = manifest.losses.tried
        are = ", of which those that lost least somewhere are " if tried else "; large blocks were begun by "
        best = (are, *listed(Name(one) for one in chosen if tried or one != name))
    refined = _REFINED.get(str(manifest.refine), _FOR_A_TIME)
    return (
        Name(name),
        f"{what}{f', with {with_these}' if with_these else ''}",
        *best,
        f"; {refined.replace('records', 'units') if manifest.has_whole_units else refined}.",
    )


_FOR_A_TIME = "records were then moved between groups for a limited time, where less was lost so"
_REFINED = {
    "off": "its groups were taken as they are",
    "fast": "records were then moved between groups where less was lost so",
    "thorough": "records were then moved between groups, and groups made anew, where less was lost so",
}


def _rounding_table(manifest: Manifest, quasi: tuple[ColumnEntry, ...]) -> Rows:
    """Make a row for each way of rounding, with all columns that it holds for."""
    columns: dict[str, list[Name]] = {}
    for column in quasi:
        words = rounding_words(column, manifest.rounding.get(column.name))
        columns.setdefault(words, []).append(Name(column.name))
    rows = tuple(((words,), listed(of)) for words, of in columns.items())
    return Rows("How means are rounded", ("means are", "of the columns"), rows)


def rounding_words(column: ColumnEntry, rule: object) -> str:
    """Say how a column's means are rounded.

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
    alike = " with equally many records" if manifest.has_whole_units else ""
    start, few = (*names(blocking), f"{kept}group. "), f"fewer than {manifest.k} {units_word(manifest)}{alike} have"
    if in_role(manifest, "weight"):
        few += ", or of whose weight one has more than half,"
    if manifest.undersized == "suppress":
        return [paragraph(*start, f"Records of a combination that {few} were withheld.")]
    if manifest.undersized != "merge":
        return [paragraph(*start, f"Every combination of values has at least {manifest.k}.")]
    merged = f"A combination that {few} was merged with a neighbour, the last column's values first. "
    labels = list(_LABELS)
    if with_hierarchy := tuple(column for column in blocking if column.hierarchy):
        labels.insert(0, ("Of ", *names(with_hierarchy), _PARENTS))
    return [paragraph(*start, f"{merged}{what} released as text:"), labels]


_PARENTS = ", the parent of values that were merged stands for them; a record has one of the values below it."
_LABELS: list[Text] = [
    (Name("b|c"), " stands for values that were merged: a record has one of them."),
    (Name("*"), " stands for values that were merged and are not listed."),
    (Name("\\N"), " within such a list is a missing value."),
    ("A bar, star or backslash that belongs to a value itself has a backslash before it.",),
]


def _as_they_are(manifest: Manifest) -> list[Block]:
    confidential = in_role(manifest, "confidential")
    blocks: list[Block] = []
    if confidential:
        came = " are released as they came" if len(confidential) > 1 else " is released as it came"
        why = "Nobody is expected to know such values from elsewhere, and they are what the release is for."
        blocks.append(paragraph(*names(confidential), f"{came}, record by record. {why}"))
    rest = (withheld_words(manifest), left_out_words(manifest), leavers_words(manifest))
    return [*blocks, *(paragraph(words) for words in rest if words)]


def withheld_words(manifest: Manifest) -> str:
    what = "units" if manifest.has_whole_units else "records"
    if manifest.suppressed == 0:
        return ""
    if manifest.suppressed is None:
        what = "units, or records of some," if manifest.has_whole_units else what
        return f"Whether {what} of the source are withheld, and how many, is not told: it could tell of single ones."
    if isinstance(manifest.suppressed, int):
        return f"{manifest.suppressed:,} records of the source are withheld."
    whole = ", with all their records" if manifest.has_whole_units else ""
    return f"Some {what} of the source are withheld{whole}, at least {manifest.k}. How many is not told."


def left_out_words(manifest: Manifest) -> str:
    """Say which records of units that have many are left out, and how many where that is told."""
    of = manifest.several
    if of is None or of.at_most is None:
        return ""
    rule = f"Of a unit with more than {of.at_most} records only the {of.keep} {of.at_most} are in the release: "
    if of.left_out is None:
        return f"{rule}how many others are left out is not told, as it could tell of single units."
    return f"{rule}{of.left_out:,} others are left out." if of.left_out else f"{rule}no unit has more."


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


NOT_PUBLISHED = "not published"


def uses_section(manifest: Manifest) -> Section:
    blocks: list[Block] = [
        paragraph(Strong("What holds")),
        bullets(*_holds(manifest)),
        paragraph(Strong("What does not, and would mislead")),
        bullets(*_misleads(manifest)),
    ]
    quasi = in_role(manifest, "quasi_identifier")
    if manifest.losses.attributes and (means := tuple(c for c in quasi if not c.is_category)):
        blocks.append(_variances(manifest, means))
    if manifest.edits:
        blocks.append(_edits(manifest.edits))
    return Section("uses", "What may be computed, and what may not", tuple(blocks))


#: What is said again and again names few columns; more of a role are called by what became of them.
_MOST_REPEATED = 4
_MANY = {
    "quasi_identifier": "the columns that are means",
    "blocking": "the columns that were kept",
    "confidential": "the columns that are as they came",
}


def few_names(manifest: Manifest, role: str) -> Text:
    """Name the columns of a role, of quasi-identifiers those that are means, in a sentence that is one of many."""
    columns = averaged(manifest) if role == "quasi_identifier" else in_role(manifest, role)
    return names(columns) if len(columns) <= _MOST_REPEATED else (_MANY[role],)


def _holds(manifest: Manifest) -> list[Text]:
    means, blocking, confidential = (few_names(manifest, role) for role in _MANY)
    lacking = f", but for the records that are {gone}" if (gone := _gone(manifest)) else ""
    within: Text = (", and within every combination of ", *blocking) if blocking else ()
    held: list[Text] = []
    if means and (weight := names(in_role(manifest, "weight"))):
        kept = f": they are kept, up to rounding{lacking}.{_CARRIED if _is_later(manifest) else ''}"
        held.append(
            ("Weighted sums and means of ", *means, " and sums of ", *weight, ", over all records", *within, kept)
        )
    elif means:
        carried = _CARRIED if _is_later(manifest) else ""
        kept = f": they are kept, up to rounding{lacking}{_without_blanked(manifest)}.{carried}"
        held.append(("Counts, sums and means of ", *means, " over all records", *within, kept))
    if blocking:
        held.append(("How many records have which values of ", *blocking, f": they are counted as they came{lacking}."))
    if confidential:
        among = " alone" if len(in_role(manifest, "confidential")) == 1 else " among themselves"
        everything = f"{among}: distributions, quantiles, tables, models. They are the values themselves{lacking}."
        held.append(("Everything about ", *confidential, everything))
        if means:
            held.append(("Slopes of a linear model that explains ", *confidential, " by ", *means, _SLOPES))
    return held


def _gone(manifest: Manifest) -> str:
    """Say what became of records of the source that are not in the release; nothing where all are."""
    of = manifest.several
    is_cut = of is not None and of.at_most is not None and of.left_out != 0
    return " or ".join(["withheld"] * (manifest.suppressed != 0) + ["left out"] * is_cut)


def _without_blanked(manifest: Manifest) -> str:
    is_none = manifest.blanked is not None and all(entry.blanked == 0 for entry in manifest.blanked.values())
    if manifest.missing != "blank" or is_none:
        return ""
    return f", {'and' if manifest.suppressed != 0 else 'but'} for the values that are blanked"


_CARRIED = " Groups that were released before have the means that they had then."
_SLOPES = (
    ": a group's mean differs from its records by what is uncorrelated with it, so slopes are about right. Their "
    "standard errors, and R², are those of coarser data."
)
_VARIANCES = ": what differed within groups is gone, so they are mostly too small."
_MENDED = " Dividing a variance by the share that is kept, given below, mends it."


def _misleads(manifest: Manifest) -> list[Text]:
    change, several = manifest.losses.correlation_change, len(averaged(manifest)) > 1
    wrong = _misleading_means(manifest, several) if averaged(manifest) else []
    if wrong and (weight := names(in_role(manifest, "weight"))):
        unweighted = ("Sums and means of ", *few_names(manifest, "quasi_identifier"), " that leave ", *weight, " out")
        wrong.append((*unweighted, ": groups have weighted means, so that only weighted figures are kept."))
    if others := tuple(c for c in in_role(manifest, "quasi_identifier") if not c.is_mean):
        wrong.append(("How many records have which values of ", *names(others), ": all of a group have one."))
    if change is not None and len(_correlated(manifest)) > 1:
        wrong.append((*correlation_sentence(manifest, change),))
    if any(edit.broken for edit in manifest.edits or ()):
        wrong.append(("Rules between columns, row by row: some rows break them, as counted below.",))
    if manifest.several:
        wrong += [(_WHOLE_UNITS,), (_NOT_INDEPENDENT,)]
    what = "it is the mean of several" if not others else "it stands for several"
    who = "record of the source" if manifest.several else "person or firm"
    wrong.append((f"A row as one {who}: in these columns {what}. Do not link rows.",))
    return wrong


_WHOLE_UNITS = (
    "Anything about whole units, such as the income of a household, the number of a patient's visits or how the "
    "records of a unit differ, unless a column came with it: which records are of one unit is not in the release."
)
_NOT_INDEPENDENT = (
    "Standard errors that take records to be independent: those of a unit are alike, and cannot be put together to "
    "allow for it."
)


def _misleading_means(manifest: Manifest, several: bool) -> list[Text]:
    means, blocking = few_names(manifest, "quasi_identifier"), few_names(manifest, "blocking")
    mended = _MENDED if _tells_what_is_kept(manifest) else ""
    has_quantiles = any(of.quantiles for of in (manifest.losses.attributes or {}).values())
    told = " Quantiles and shares of zeros of the source stand with what was lost." if has_quantiles else ""
    return [
        ("Variances and standard deviations of ", *means, f"{_VARIANCES}{mended}"),
        (
            *(
                "Quantiles, least and greatest values, shares of zeros, shares above a limit, and counts of distinct "
                "values of ",
                *means,
            ),
            f": means lie closer together than values do.{told}",
        ),
        (
            *("Means of small subgroups, such as those above a limit of ", *means),
            *((", or across combinations of ", *blocking) if blocking else ()),
            ": a group with records on both sides counts on one.",
        ),
        (
            *("Residuals, outliers, and models that explain ", *(("one of ",) if several else ()), *means),
            " by other columns: what is left to explain is what was taken out.",
        ),
    ]


def _edits(edits: tuple[EditEntry, ...]) -> Rows:
    rows = tuple(
        (
            (Name(edit.rule),),
            (f"{edit.broken:,} of {edit.compared:,}",),
            (f"{100 * edit.broken / max(1, edit.compared):.3g} %",),
            (_share_before(edit),),
        )
        for edit in edits
    )
    head = ("rule", "rows that break it, of those with both values", "share", "share in the source")
    return Rows("Rules between columns that groups' means may break", head, rows, frozenset({1, 2, 3}))


def _share_before(edit: EditEntry) -> str:
    """Say how many records broke a rule before masking, as far as it is told.

    >>> _share_before(EditEntry(rule="a < b", compared=9000, broken=70, before=0.01, within=0.005))
    '1 % (within 0.5)'
    """
    if edit.before is None:
        return NOT_PUBLISHED
    return f"{100 * edit.before:.6g} %" + (f" (within {100 * edit.within:.6g})" if edit.within else "")


def _is_later(manifest: Manifest) -> bool:
    return manifest.series is not None and manifest.series.night > 0 and manifest.series.mode in ("atoms", "rotation")


def correlation_sentence(manifest: Manifest, change: CorrelationChange) -> Text:
    what = "The correlation of " if change.pairs == 1 else "Correlations between "
    columns = _correlated(manifest)
    which = names(columns) if len(columns) <= _MOST_REPEATED else ("numbers",)
    ranks = " (ordered categories by their ranks)" if any(c.is_ranked for c in columns) else ""
    return (what, *which, f"{ranks} changed{correlation_words(change)}.")


def _correlated(manifest: Manifest) -> tuple[ColumnEntry, ...]:
    return tuple(column for column in manifest.columns if column.is_mean or column.is_ranked)


def correlation_words(change: CorrelationChange) -> str:
    """Say by how much correlations changed.

    >>> correlation_words(CorrelationChange(pairs=3, left_out=0, mean=0.02, largest=0.05))
    ' by 0.02 on average and by 0.05 at most, over 3 pairs'
    >>> correlation_words(CorrelationChange(pairs=1, left_out=0, mean=8e-06, largest=8e-06))
    ' by less than 0.001'
    """
    if change.mean is None or change.largest is None:
        return ", and by how much is not published"
    if change.pairs == 1:
        return f" by {_small(change.mean)}"
    over = f"over {change.pairs or 0:,} pairs"
    return f" by {_small(change.mean)} on average and by {_small(change.largest)} at most, {over}"


def _small(change: float) -> str:
    return f"{change:.3g}" if change >= 0.001 or change == 0 else "less than 0.001"


def _variances(manifest: Manifest, quasi: tuple[ColumnEntry, ...]) -> Rows:
    attributes, kept = manifest.losses.attributes or {}, _tells_what_is_kept(manifest)
    rows = tuple(
        ((Name(c.name),), *([(_kept(of),)] * kept), (mean_words(of),), (deviation_words(of),))
        for c in quasi
        if (of := attributes.get(c.name)) is not None
    )
    head = ("column", *(["variance kept"] * kept), "released mean", "released standard deviation")
    return Rows("What is left of each column", head, rows, frozenset({1 + kept, 2 + kept}))


def _tells_what_is_kept(manifest: Manifest) -> bool:
    """Tell whether shares of variances are published: of a file with carried records they are not."""
    return bool(manifest.losses.attributes) and manifest.losses.arrivals is None


def _kept(of: AttributeFigures) -> Share | str:
    if of.variance_kept is None:
        return NOT_PUBLISHED if "variance_kept" not in of.model_fields_set else "has none"
    return Share(of.variance_kept, f"{of.variance_kept:.6g} %")


def losses_section(manifest: Manifest) -> Section:
    losses = manifest.losses
    untold = _untold(losses, several=manifest.has_whole_units)
    if losses.arrivals is not None:
        return Section("loss", "What was lost", (*_of_arrivals(manifest, losses.arrivals), *untold))
    blocks: list[Block] = [*_total(manifest, losses), *_bound(manifest, losses)]
    if losses.correlation_change is not None:
        blocks.append(paragraph(*correlation_sentence(manifest, losses.correlation_change)))
    if losses.attributes:
        blocks += [*_by_column(manifest, losses), *_of_categories(losses), *_of_values(losses)]
    return Section("loss", "What was lost", (*blocks, *untold))


def _of_arrivals(manifest: Manifest, arrivals: Figures) -> list[Block]:
    """Say what those lost who were grouped for this release, and that it is not the loss of the file."""
    n, rest = arrivals.records or 0, "as earlier releases of the series grouped them"
    if not n:
        return [paragraph(f"No record was grouped for this release: all are {rest}.")]
    words = (
        f"{n:,} of its {manifest.rows:,} records were grouped for this release; the others are {rest}. The loss that "
        f"follows is that of these {n:,} records, not that of the file:"
    )
    untold = _untold(arrivals, several=manifest.has_whole_units)
    return [paragraph(words), *_total(manifest, arrivals), *_bound(manifest, arrivals), *untold]


def _total(manifest: Manifest, losses: Figures) -> list[Block]:
    if not losses.records:
        return [paragraph("No figures of the loss are published for this release.")]
    if losses.l_sse is None:
        return [paragraph("How much was lost is not published: it would tell of single records.")]
    quasi = in_role(manifest, "quasi_identifier")
    together = " together" if len(quasi) > 1 else ""
    has_categories = any(column.is_category for column in quasi)
    euclid = ""
    if losses.l_e is not None:
        euclid = f" Measured by distances instead of their squares, the loss is {losses.shown('l_e')}."
    if losses.weighted is not None and losses.weighted.l_sse is not None:
        euclid += f" Of the weighted variance it is {losses.shown('weighted.l_sse')}."
    return [
        paragraph(
            *(f"{losses.shown('l_sse')} of the {variation_word(manifest)} of ", *names(quasi)),
            f"{together} was within groups, and is gone.{_VARIATION if has_categories else ''}{euclid}",
        )
    ]


_VARIATION = (
    " That is the variance of numbers, and of the ranks of ordered categories; and of other categories the chance that "
    "two records differ."
)


def _bound(manifest: Manifest, losses: Figures) -> list[Block]:
    if losses.gap is None:
        return []
    within = " within the same values of blocking columns" if in_role(manifest, "blocking") else ""
    certified = ""
    if losses.certificate is not None and losses.certificate.ratio:
        certified = f" It is at most {losses.certificate.ratio:g} times the least possible."
    return [
        paragraph(
            f"At most {losses.shown('gap')} of this loss could have been avoided: no groups of at least {manifest.k} "
            f"records{within}, it is proved, lose less than the rest of it.{certified}"
        )
    ]


def _by_column(manifest: Manifest, losses: Figures) -> list[Block]:
    """Make a table of the columns that are numbers, and one of categories."""
    numbers: list[tuple[Text, ...]] = []
    categories: list[tuple[Text, ...]] = []
    for column in in_role(manifest, "quasi_identifier"):
        of = (losses.attributes or {}).get(column.name)
        if of is None:
            continue
        text = partial(_figure, losses, column.name)
        lost: Share | str = NOT_PUBLISHED if of.l_sse is None else Share(of.l_sse, text("l_sse", " %"))
        if not column.is_category:
            numbers.append(((Name(column.name),), (lost,), (text("il1s"),)))
            continue
        kept = "-" if of.categories is None else f"{of.categories_kept:,} of {of.categories:,}"
        cells = (text("mismatches", " %"), text("rank_displacement" if column.is_ranked else "margins", " %"), kept)
        categories.append(((Name(column.name),), (lost,), *((cell,) for cell in cells)))
    tables: list[Block] = []
    if numbers:
        head = ("column", "share of its variance that is gone", "mean distance (IL1s)")
        tables.append(Rows("Loss of each column", head, tuple(numbers), frozenset({2})))
    if categories:
        tables.append(
            Rows("Loss of each column of categories", _OF_CATEGORIES, tuple(categories), frozenset({2, 3, 4}))
        )
        weighted = _COUNTED if in_role(manifest, "weight") else ""
        tables.append(paragraph(f"{_MOVED}{weighted}"))
    return tables + _generalized(losses)


def _generalized(losses: Figures) -> list[Block]:
    """Say of each column with a hierarchy how many records got a parent, and what that means."""
    told = {name: of for name, of in (losses.attributes or {}).items() if of.generalized is not None}
    return [paragraph("Of ", Name(name), f", {generalized_words(of)}") for name, of in told.items()]


def generalized_words(of: AttributeFigures) -> str:
    """Say what figures of a hierarchy mean.

    >>> generalized_words(AttributeFigures(generalized=3.2, generality=0.8))[:53]
    '3.2 % of records have a parent in place of a value. I'
    """
    if not of.generalized:
        return "no record has a parent in place of a value."
    return (
        f"{of.generalized:.6g} % of records have a parent in place of a value. It stands for all values below it, so "
        "that their category is not counted as another. Over all records the mean generality is "
        f"{of.generality:.6g} %, where a value has 0, and a parent of n of all N values (n - 1) / (N - 1)."
    )


_OF_CATEGORIES = (
    "column",
    "share of its variation that is gone",
    "records with another category",
    "moved",
    "categories kept",
)
_MOVED = (
    "Moved is, of categories with an order, how far released ones are from records' own on average, in percent of all "
    "ranks; of others, by how much their shares of records changed: half of the sum of all changes."
)


_COUNTED = " All of this counts records, whatever their weights."


def _figure(losses: Figures, column: str, name: str, unit: str = "") -> str:
    value = getattr((losses.attributes or {})[column], name)
    return NOT_PUBLISHED if value is None else f"{value:.6g}{unit}{_within(losses, column, name)}"


def _of_categories(losses: Figures) -> list[Block]:
    """Make a table of the shares of categories for each column that has some; nothing in manifests that lack them."""
    tables: list[Block] = []
    for name, of in (losses.attributes or {}).items():
        rows: list[tuple[Text, ...]] = [
            ((Name(category.category),), (Share(category.share, f"{category.share:.6g} %"),), (_came(category),))
            for category in of.shares or ()
        ]
        if of.other_shares:
            rows.append((("others",), (Share(of.other_shares, f"{of.other_shares:.6g} %"),), ("-",)))
        if rows:
            head = ("category", "share of records, released", "in the source")
            tables.append(Rows(f"Categories of {name}", head, tuple(rows), frozenset({2})))
    return tables


def _came(of: CategoryFigures) -> str:
    """Say what share a category had, as far as it is told.

    >>> _came(CategoryFigures(category="a", share=12.0, share_before=11.5, within=0.5))
    '11.5 % (within 0.5)'
    """
    if of.share_before is None:
        return NOT_PUBLISHED
    return f"{of.share_before:.6g} %" + (f" (within {readable(of.within)})" if of.within else "")


def _of_values(losses: Figures) -> list[Block]:
    """Say how shares of zeros and of common values, and quantiles, changed; nothing in manifests that lack them."""
    told = {name: of for name, of in (losses.attributes or {}).items() if of.quantiles}
    if not told:
        return []
    drawn = f" Both are of {losses.drawn:,} records that were drawn." if losses.drawn else ""
    blocks: list[Block] = [paragraph(f"{_MEANS_ARE_SMOOTH}{drawn}")]
    if numbers := {name: of for name, of in told.items() if of.zeros is not None}:
        fields = ("zeros_before", "zeros", "heaps_before", "heaps")
        shares: list[tuple[Text, ...]] = [
            ((Name(name),), *((_figure(losses, name, field, " %"),) for field in fields)) for name in numbers
        ]
        head: tuple[str, ...] = (
            "column",
            "zeros in the source",
            "released",
            "five most frequent others in the source",
            "released",
        )
        blocks.append(Rows("Zeros, and round or other frequent values", head, tuple(shares), frozenset({1, 2, 3, 4})))
    at = next(iter(told.values())).quantiles or {}
    rows = [
        (words, *((_quantile(losses, name, field, percent),) for percent in at))
        for name in told
        for field, words in (("quantiles_before", (Name(name), ", source")), ("quantiles", (Name(name), ", released")))
    ]
    head = ("column", *(f"{percent} % lie below" for percent in at))
    return [*blocks, Rows("Quantiles", head, tuple(rows), frozenset(range(1, len(head))))]


_MEANS_ARE_SMOOTH = (
    "Means of groups are smoother than values: fewer are zero or round, and the outer quantiles move inwards. Of the "
    "source, shares and quantiles are only told as far as many records have them in common."
)


def _quantile(losses: Figures, column: str, field: str, percent: str) -> str:
    value = (getattr((losses.attributes or {})[column], field) or {}).get(percent)
    if value is None:
        return NOT_PUBLISHED
    words = value if isinstance(value, str) else readable(value)
    return f"{words}{_within(losses, column, f'{field}.{percent}')}"


def _within(losses: Figures, column: str, figure: str) -> str:
    within = (losses.coarser or {}).get(f"attributes.{column}.{figure}")
    return f" (within {readable(within)})" if within else ""


def _untold(losses: Figures, *, several: bool) -> list[Block]:
    blocks: list[Block] = []
    if losses.coarser:
        blocks.append(paragraph(_COARSER))
    if losses.withheld:
        blocks.append(paragraph("Not published: ", f"{losses.withheld}."))
    if losses.records and losses.lower_bound is None and losses.l_sse is not None:
        unproved = "How much of it better groups could have avoided is not known: of units nothing is proved."
        withheld = "What could have been avoided is not published with this release."
        blocks.append(paragraph(unproved if several else withheld))
    return blocks


_COARSER = (
    "Some figures have fewer digits than others, and it is said how far off each may be: with all digits they "
    "would tell of the records of one group, or of few."
)
