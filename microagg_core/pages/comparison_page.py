"""Settings of a release side by side on one page, which needs nothing but itself: for the operator alone."""

from __future__ import annotations

from html import escape

from microagg_core.compare.choosing import ReleaseComparison
from microagg_core.pages.comparison_report import (
    Rows,
    advice_lines,
    headline_of,
    loss_table,
    risk_table,
    table_notes,
    yaml_lines,
)
from microagg_core.pages.risk_plot import risk_svg

_STYLE = """
body { font: 16px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #111; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .25rem 0; }
th, td { padding: .15rem .7rem; text-align: right; border-bottom: 1px solid #ccc; white-space: nowrap; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
pre { background: #f2f2f2; padding: .75rem 1rem; overflow-x: auto; }
@media print { body { margin: 0; max-width: none; } table { page-break-inside: avoid; } }
"""

_PICTURE = "Risk against loss, a mark for each setting; the tables below have all figures"


def comparison_page(comparison: ReleaseComparison, name: str) -> str:
    """The page as HTML.

    Args:
        comparison: what was compared.
        name: of the series of releases.
    """
    title = f"What a release of {name} would lose and give away"
    choice = comparison.choice(comparison.asked.k)
    lines = "\n".join(yaml_lines(choice.chosen)) if choice else ""
    parts = [
        "<!DOCTYPE html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body><main>",
        f"<h1>{escape(title)}</h1>",
        "<p><strong>Private: risk figures are for the operator alone.</strong></p>",
        f"<p>From {escape(headline_of(comparison))}.</p>",
        f"<h2>For k={comparison.asked.k}, as the spec asks</h2>",
        f"<pre>{escape(lines)}</pre>" if lines else "",
        _list(advice_lines(comparison)),
        "<h2>Risk against loss</h2>",
        f'<figure role="img" aria-label="{_PICTURE}">{risk_svg(comparison)}</figure>',
        "<h2>All figures</h2>",
        _list(list(table_notes(comparison))),
        *(_tables(comparison, k) for k in comparison.ks()),
        "</main></body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _tables(comparison: ReleaseComparison, k: int) -> str:
    lost = _table(f"k={k}: what is lost, and what it takes", loss_table(comparison, k))
    return lost + _table(f"k={k}: what is given away", risk_table(comparison, k))


def _list(lines: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _table(caption: str, rows: Rows) -> str:
    header, *others = rows
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in others)
    table = f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'
