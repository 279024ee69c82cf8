"""The figures that the papers print, row by row; ``python tests/reference/published.py`` prints the walk."""

from __future__ import annotations

from collections import Counter

import pytest
from published import TOLERANCE, Row, dataset, rows, verdict

from covering import each
from microagg_core import algorithms
from microagg_core.group.metrics.losses import losses

ROWS = rows()

#: What draws nothing at random: every row of it is compared, wherever its data are known.
COMPARED = set(algorithms()) - {"mu_approx"}

#: (paper, data set, method, k) of the rows that are near but not equal; all others that are compared are equal.
NEAR = {
    *(("survey-k-anonymity-microaggregation-2006", "census", "MD", k) for k in (3, 4)),
    # 751.448, printed cut off after the second digit, and 7.48479 after the third
    ("survey-k-anonymity-microaggregation-2006", "eia", "MD", 5),
    ("mu-approx-2008", "sme", "optimal", 3),
    *(("survey-k-anonymity-microaggregation-2006", "census", "MDAV", k) for k in (4, 10)),
    *(("survey-k-anonymity-microaggregation-2006", "census", "V-MDAV", k) for k in (3, 4, 10)),
    # 302.186 and 337.875, printed cut off after the second digit
    *(("survey-k-anonymity-microaggregation-2006", "eia", method, 4) for method in ("MDAV", "V-MDAV")),
    *(("mu-approx-2008", "census", "MDAV", k) for k in (4, 10)),
    # The paper leaves open which MDAV cuts trees of 2k records and more; MD comes nearest.
    *(("mu-approx-2008", "census", "M-d", k) for k in (3, 4, 5, 10)),
    *(("mu-approx-2008", "tarragona", "M-d", k) for k in (3, 5, 10)),
    # Not quite the least: the least weight gives 958.4875 and 8.84050, and a factor that is heavier by 0.00075 of
    # 1,910 gives what is printed.
    ("two-mu-approx-2006", "tarragona", "2-mu-Approx", 2),
    ("v-mdav-2006", "census", "V-MDAV", 10),
    *(("v-mdav-2006", "tarragona", "MDAV", k) for k in (3, 4, 5, 10)),
    ("v-mdav-2006", "tarragona", "V-MDAV", 10),
    ("v-mdav-2006", "eia", "MDAV", 10),
    # The MDAV of this paper is not quite the survey's.
    *(("mdav-star-2018", name, "MDAV", k) for name in ("census", "tarragona") for k in (3, 4, 5, 7, 10)),
    *(("mdav-star-2018", "eia", "MDAV", k) for k in (4, 5, 7, 10)),
}


@each("row", ROWS)
def test_row(row: Row) -> None:
    """Each row is equal, near where we know it is, or out of reach for a reason that is told."""
    found = verdict(row)
    if found.kind in ("not covered", "not reproducible"):
        assert found.detail
        assert row.algorithm not in COMPARED or row.dataset == "eia-600"
    else:
        is_near = (row.paper, row.dataset, row.method, row.k) in NEAR
        assert found.kind == ("near" if is_near else "equal"), f"{row}: {found.detail}, tolerance {TOLERANCE}"


def test_the_walk_skips_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(set(ROWS)) == len(ROWS)
    kinds = Counter(verdict(row).kind for row in ROWS)
    assert set(kinds) == {"equal", "near", "not reproducible"}
    assert kinds["equal"] >= 100 and sum(kinds.values()) == 174
    with capsys.disabled():
        print("\npublished figures: " + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("census", (5.6922, 9.0884, 14.1559)),
        ("tarragona", (16.9326, 22.4619, 33.1929)),
        ("eia", (0.4829, 1.6667, 3.8397)),
    ],
)
def test_mdav_generic_loses_what_it_does_in_other_tools(name: str, figures: tuple[float, ...]) -> None:
    X, info = dataset(name), algorithms()["mdav_generic"]
    found = [losses(X, info.run(X, k)).l_sse for k in (3, 5, 10)]
    assert [round(loss, 4) for loss in found] == list(figures)


@pytest.mark.parametrize(
    ("name", "k", "least", "most"),
    [
        ("census", 3, 6.09, 6.51),
        ("census", 10, 15.99, 17.58),
        ("eia", 3, 0.402, 0.421),
        ("eia", 5, 0.843, 1.114),
        ("eia", 10, 2.13, 2.43),
        ("tarragona", 2, 10.43, 11.60),
        ("tarragona", 3, 17.1, 19.3),
    ],
)
def test_mu_approx_loses_what_it_does_elsewhere(name: str, k: int, least: float, most: float) -> None:
    """The mean over ten seeds lies within what ten seeds of another implementation gave."""
    X, info = dataset(name), algorithms()["mu_approx"]
    found = [losses(X, info.run(X, k, seed=seed)).l_sse for seed in range(10)]
    assert least <= sum(found) / 10 <= most
