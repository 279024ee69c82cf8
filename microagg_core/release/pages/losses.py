"""How much was lost, how much of it could have been avoided, and what is not told of it."""

from __future__ import annotations

from microagg_core.group.metrics.figures import Figures
from microagg_core.release.manifest import Manifest
from microagg_core.release.pages.document import Block, Name, Rows, Section, Share, Text, paragraph
from microagg_core.release.pages.method import names
from microagg_core.release.pages.release_words import in_role
from microagg_core.release.pages.uses import NOT_PUBLISHED, correlation_sentence


def losses_section(manifest: Manifest) -> Section:
    """Totals, the bound, and each column."""
    losses = manifest.losses
    if losses.arrivals is not None:
        return Section("loss", "What was lost", (*_of_arrivals(manifest, losses.arrivals), *_untold(losses)))
    blocks: list[Block] = [*_total(manifest, losses), *_bound(manifest, losses)]
    if losses.correlation_change is not None:
        blocks.append(paragraph(*correlation_sentence(manifest, losses.correlation_change)))
    if losses.attributes:
        blocks.append(_by_column(manifest, losses))
    return Section("loss", "What was lost", (*blocks, *_untold(losses)))


def _of_arrivals(manifest: Manifest, arrivals: Figures) -> list[Block]:
    """Say what those lost who were grouped for this release, and that it is not the loss of the file."""
    n, rest = arrivals.records or 0, "as earlier releases of the series grouped them"
    if not n:
        return [paragraph(f"No record was grouped for this release: all are {rest}.")]
    words = (
        f"{n:,} of its {manifest.rows:,} records were grouped for this release; the others are {rest}. The loss that "
        f"follows is that of these {n:,} records, not that of the file:"
    )
    return [paragraph(words), *_total(manifest, arrivals), *_bound(manifest, arrivals), *_untold(arrivals)]


def _total(manifest: Manifest, losses: Figures) -> list[Block]:
    if not losses.records:
        return [paragraph("No figures of the loss are published for this release.")]
    if losses.l_sse is None:
        return [paragraph("How much was lost is not published: it would tell of single records.")]
    quasi = in_role(manifest, "quasi_identifier")
    together = " together" if len(quasi) > 1 else ""
    euclid = ""
    if losses.l_e is not None:
        euclid = f" Measured by distances instead of their squares, the loss is {losses.shown('l_e')}."
    return [
        paragraph(
            *(f"{losses.shown('l_sse')} of the variance of ", *names(quasi)),
            f"{together} was within groups, and is gone.{euclid}",
        )
    ]


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


def _by_column(manifest: Manifest, losses: Figures) -> Rows:
    attributes, coarser = losses.attributes or {}, losses.coarser or {}
    rows: list[tuple[Text, ...]] = []
    for column in in_role(manifest, "quasi_identifier"):
        of = attributes.get(column.name)
        if of is None:
            continue
        within = coarser.get(f"attributes.{column.name}.l_sse")
        off = f" (within {within:g})" if within else ""
        lost: Share | str = NOT_PUBLISHED if of.l_sse is None else Share(of.l_sse, f"{of.l_sse:.6g} %{off}")
        rows.append(((Name(column.name),), (lost,), (_il1s(of.il1s, coarser.get(f"attributes.{column.name}.il1s")),)))
    head = ("column", "share of its variance that is gone", "mean distance (IL1s)")
    return Rows("Loss of each column", head, tuple(rows), frozenset({2}))


def _il1s(value: float | None, within: float | None) -> str:
    if value is None:
        return NOT_PUBLISHED
    return f"{value:.6g}" + (f" (within {within:g})" if within else "")


def _untold(losses: Figures) -> list[Block]:
    blocks: list[Block] = []
    if losses.coarser:
        blocks.append(paragraph(_COARSER))
    if losses.withheld:
        blocks.append(paragraph("Not published: ", f"{losses.withheld}."))
    if losses.records and losses.lower_bound is None and losses.l_sse is not None:
        blocks.append(paragraph("What could have been avoided is not published with this release."))
    return blocks


_COARSER = (
    "Some figures have fewer digits than others, and it is said how far off each may be: with all digits they "
    "would tell of the records of one group."
)
