"""What may be computed from a release, and what may not."""

from __future__ import annotations

from microagg_core.group.metrics.figures import AttributeFigures, CorrelationChange
from microagg_core.group.metrics.statistics import readable
from microagg_core.release.manifest import ColumnEntry, Manifest
from microagg_core.release.pages.document import Block, Name, Rows, Section, Share, Strong, Text, bullets, paragraph
from microagg_core.release.pages.method import names
from microagg_core.release.pages.release_words import in_role

NOT_PUBLISHED = "not published"


def uses_section(manifest: Manifest) -> Section:
    """Both lists, and how much of each column's variance is left."""
    blocks: list[Block] = [
        paragraph(Strong("What holds")),
        bullets(*_holds(manifest)),
        paragraph(Strong("What does not, and would mislead")),
        bullets(*_misleads(manifest)),
    ]
    quasi = in_role(manifest, "quasi_identifier")
    if manifest.losses.attributes:
        blocks.append(_variances(manifest, quasi))
    return Section("uses", "What may be computed, and what may not", tuple(blocks))


#: What is said again and again names few columns; more of a role are called by what became of them.
_MOST_NAMED = 4
_MANY = {
    "quasi_identifier": "the columns that are means",
    "blocking": "the columns that were kept",
    "confidential": "the columns that are as they came",
}


def few_names(manifest: Manifest, role: str) -> Text:
    """The columns of a role within a sentence that is one of many."""
    columns = in_role(manifest, role)
    return names(columns) if len(columns) <= _MOST_NAMED else (_MANY[role],)


def _holds(manifest: Manifest) -> list[Text]:
    quasi, blocking, confidential = (few_names(manifest, role) for role in _MANY)
    lacking = ", but for the records that are withheld" if manifest.suppressed != 0 else ""
    within: Text = (", and within every combination of ", *blocking) if blocking else ()
    held: list[Text] = [
        (
            *("Counts, sums and means of ", *quasi, " over all records", *within),
            f": they are kept, up to rounding{lacking}.{_CARRIED if _is_later(manifest) else ''}",
        )
    ]
    if blocking:
        held.append(("How many records have which values of ", *blocking, f": they are counted as they came{lacking}."))
    if confidential:
        among = " alone" if len(in_role(manifest, "confidential")) == 1 else " among themselves"
        everything = f"{among}: distributions, quantiles, tables, models. They are the values themselves{lacking}."
        held.append(("Everything about ", *confidential, everything))
        held.append(("Slopes of a linear model that explains ", *confidential, " by ", *quasi, _SLOPES))
    return held


_CARRIED = " Groups that were released before have the means that they had then."
_SLOPES = (
    ": a group's mean differs from its records by what is uncorrelated with it, so slopes are about right. Their "
    "standard errors, and R², are those of coarser data."
)
_VARIANCES = ": what differed within groups is gone, so they are mostly too small."
_MENDED = " Dividing a variance by the share that is kept, given below, mends it."


def _misleads(manifest: Manifest) -> list[Text]:
    quasi, blocking = few_names(manifest, "quasi_identifier"), few_names(manifest, "blocking")
    change, several = manifest.losses.correlation_change, len(in_role(manifest, "quasi_identifier")) > 1
    mended = _MENDED if _tells_what_is_kept(manifest) else ""
    wrong: list[Text] = [
        ("Variances and standard deviations of ", *quasi, f"{_VARIANCES}{mended}"),
        (
            *("Quantiles, least and greatest values, shares above a limit, and counts of distinct values of ", *quasi),
            ": means lie closer together than values do.",
        ),
        (
            *("Means of small subgroups, such as those above a limit of ", *quasi),
            *((", or across combinations of ", *blocking) if blocking else ()),
            ": a group with records on both sides counts on one.",
        ),
        (
            *("Residuals, outliers, and models that explain ", *(("one of ",) if several else ()), *quasi),
            " by other columns: what is left to explain is what was taken out.",
        ),
    ]
    if change is not None and several:
        wrong.append((*correlation_sentence(manifest, change),))
    wrong.append(("A row as one person or firm: in these columns it is the mean of several. Do not link rows.",))
    return wrong


def _is_later(manifest: Manifest) -> bool:
    return manifest.series is not None and manifest.series.night > 0 and manifest.series.mode in ("atoms", "rotation")


def correlation_sentence(manifest: Manifest, change: CorrelationChange) -> Text:
    """By how much correlations changed."""
    what = "The correlation of " if change.pairs == 1 else "Correlations between "
    return (what, *few_names(manifest, "quasi_identifier"), f" changed{correlation_words(change)}.")


def correlation_words(change: CorrelationChange) -> str:
    """By how much correlations changed.

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
        ((Name(c.name),), *([(_kept(of),)] * kept), (_mean(of),), (_deviation(of),))
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


def _mean(of: AttributeFigures) -> str:
    if of.mean is None:
        return "-"
    return of.mean if isinstance(of.mean, str) else readable(of.mean)


def _deviation(of: AttributeFigures) -> str:
    if of.variance is None:
        return "-"
    unit = {None: "", "the column's": ""}.get(of.unit, f" {of.unit}")
    return f"{readable(of.variance**0.5)}{unit}"
