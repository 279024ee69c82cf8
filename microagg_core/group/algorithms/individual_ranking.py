"""Individual ranking: every attribute of a table masked on its own, in its own optimal groups."""

from __future__ import annotations

from dataclasses import replace

from microagg_core.group.algorithms.univariate import INFO as UNIVARIATE

INFO = replace(
    UNIVARIATE,
    name="individual_ranking",
    summary="each attribute on its own, in its own optimal groups; k-anonymous for a single quasi-identifier only",
    description=(
        "Makes the optimal groups of each attribute on its own, as the method univariate does, so that a record has "
        "as many groups as attributes. Choose it to mask single numbers and ordinal ones with very little loss where "
        "nobody can combine them: combinations of masked values may still be unique, so that a release with several "
        "quasi-identifiers would not be k-anonymous, and is refused. Only microaggregate masks several attributes "
        "with it. Time grows with the records times k for each attribute, but for sorting."
    ),
    sizes_text="k to 2k-1, for each attribute",
    each_attribute=True,
)
