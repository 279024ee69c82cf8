"""The operator's page: what it says of figures made by hand, and what it is as a file."""

from __future__ import annotations

import html.parser
import re
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from inputs.operator_pages import blocks, inputs, manifest
from microagg_core.blocks.strata import StrataRules, plan_strata
from microagg_core.data.kinds.registry import kind_of
from microagg_core.inspect.portrait.pictures import pictures_of
from microagg_core.inspect.portrait.scales import DrawnColumn, ShownColumn
from microagg_core.pages.operator.charts import Canvas, pair_chart
from microagg_core.pages.operator.inputs import ReportInputs
from microagg_core.pages.operator.losses import ranked_blocks
from microagg_core.pages.operator.page import operator_page, verdict
from microagg_core.pages.operator.shapes import moved_share
from microagg_core.pages.plan_report import joined_values

#: What a colleague can be sent.
MOST_BYTES = 3_000_000


class Seen(html.parser.HTMLParser):
    """Tags of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).replace("\u00a0", " ").split())


@pytest.fixture(scope="module")
def page() -> str:
    return operator_page(inputs()).decode()


def test_the_four_questions_are_answered(page: str) -> None:
    text = Seen(page).text
    for words in (
        "Published with k = 5; all 2 checks passed; 2 % of the variation lost; who knows all quasi-identifiers picks "
        "the right record for 16.4 % (by chance 1 %); 7 records withheld, 2 blocks merged.",
        "The gate lets it pass",
        "At most 40 % of that loss could have been avoided",
        "For 31.6 % of records the value of 'diagnosis' can be inferred with certainty (by chance 4.2 %).",
        "k = 10 would lose 4 % instead of 2 %, and who knows all quasi-identifiers would pick the right record for 8 % "
        "instead of 16 %; ‘diagnosis’ would be certain for 10 % instead of 30 %.",
        "Quasi-identifier 'a' is constant and could be dropped.",
        "Blocking values were joined with others, so that k records share them: ‘town’ of 41 records.",
        "'odd' has fewer than 10 values, too few to be shown.",
        "R² 0.4000 before and 0.3500 after; ‘age’ changes most, by 2 standard errors",
    ):
        assert words in text, words


def test_it_asks_nobody_for_anything_and_has_no_script(page: str) -> None:
    tags = Seen(page).tags
    assert not [tag for tag, _ in tags if tag in ("script", "iframe", "object", "embed", "form")]
    for _, attributes in tags:
        for name, value in attributes.items():
            if name in ("href", "src", "xlink:href"):
                assert (value or "").startswith(("#", "data:")), value
            assert not name.startswith("on")
    assert re.findall(r"url\((?!#)", page) == [] and "@import" not in page


def test_it_can_be_read_without_seeing(page: str) -> None:
    tags = Seen(page).tags
    pictures = [attributes for tag, attributes in tags if tag == "svg"]
    assert len(pictures) > 10
    assert all(one.get("role") == "img" and one.get("aria-label") for one in pictures)
    assert all(attributes.get("scope") for tag, attributes in tags if tag == "th")
    levels = [int(tag[1]) for tag, _ in tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and all(after - before <= 1 for before, after in pairwise(levels))
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {a["href"] for tag, a in tags if tag == "a"} <= {f"#{one}" for one in ids}


def test_what_is_missing_is_said() -> None:
    text = Seen(operator_page(ReportInputs(manifest(["a", "b"]))).decode()).text
    for words in (
        "Not measured by this run",
        "Not looked at by this run",
        "The audit has no plan",
        "It was not measured",
    ):
        assert words in text, words
    assert ReportInputs(manifest(["a"])).lacking() == ("risk", "portrait", "expected")
    assert inputs().lacking() == ()


def test_a_failed_check_is_no_pass_and_a_draft_no_release() -> None:
    failed = inputs(checks=({"name": "k_anonymity", "passed": False, "detail": ""},))
    assert "NOT all checks passed" in verdict(failed)
    assert "No: a check of the gate failed." in Seen(operator_page(failed).decode()).text
    draft = Seen(operator_page(inputs(is_draft=True)).decode()).text
    assert "Draft, not published with k = 5" in draft and "2026, draft" in draft


def test_200_columns_and_20_000_blocks_make_a_small_page() -> None:
    assert len(operator_page(inputs([f"column {i}" for i in range(200)], 20_000))) < MOST_BYTES


def test_shares_of_moved_records_and_worst_blocks_by_hand() -> None:
    one = inputs().portrait.distributions[0]  # type: ignore[union-attr]
    before, after = np.array(one.before) / sum(one.before), np.array(one.after) / sum(one.after)
    assert moved_share(one) == pytest.approx(float(np.maximum(after - before, 0).sum()))
    table = blocks(30)
    order = sorted(range(30), key=lambda i: -table["sse"][i].as_py())
    assert ranked_blocks(table).index.tolist() == order


def test_every_mean_of_a_pair_is_a_dot() -> None:
    """As many dots of either size as records say, also of means at the rim, which are rounded beyond it."""
    rng = np.random.default_rng(2)
    before = rng.normal(size=(4000, 2))
    after = before[rng.permutation(4000) // rng.choice([4, 9], 4000)]  # groups of all sizes
    x, y = (
        DrawnColumn(ShownColumn(kind_of(name, pa.float64())), before[:, j], after[:, j]) for j, name in enumerate("xy")
    )
    (pair,) = pictures_of([x, y], [(0, 1)], 5)
    most = max(mean.records for mean in pair.means)
    n_large = sum(2 * mean.records >= most for mean in pair.means)
    assert len(pair.means) == 400 and 0 < n_large < 400
    paths = re.findall(r'<path d="([^"]*)"[^>]*stroke: var\(--after\)[^>]*stroke-width: ([\d.]+)', pair_chart("", pair))
    assert {width: path.count("M") for path, width in paths} == {"6.4": n_large, "4": 400 - n_large}


def test_joined_values_are_counted_by_column() -> None:
    """By hand: x1 has 2 records below k and joins x2 under x; y joins nobody's town; z is one key."""
    keys = pa.table(
        {
            "pattern": np.zeros(5, dtype=np.uint64),
            "b0": ["x", "x", "y", "z", "z"],
            "b1": ["1", "2", "1", "1", "2"],
            "rows": [2, 6, 5, 9, 7],
        }
    )
    strata = plan_strata(keys, StrataRules(3), [pa.string(), pa.string()])
    assert joined_values(["region", "town"], strata) == {"region": 0, "town": 8}


def test_names_of_columns_and_words_of_a_chart_are_text(page: str) -> None:
    assert "<i>age</i>" not in page and "&lt;i&gt;age&lt;/i&gt; &amp; $more$" in page
    canvas = Canvas(50)
    canvas.text(1, 20, "漢字 $x$ <b>")
    svg = canvas.svg('a "label"')
    assert 'aria-label="a &quot;label&quot;"' in svg and "漢字 $x$ &lt;b&gt;" in svg


def test_a_page_loads_no_plotting_library() -> None:
    code = "import sys; from microagg_core.pages.operator import page; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
