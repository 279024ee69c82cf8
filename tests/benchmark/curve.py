"""Efficiency over workers as a picture: what workers compute, and above it what keeps them from it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from microagg_core.release.sizing.forecast import Forecast

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 420, 60, 40, 190, 50
#: From the bottom to the top, with colours that people tell apart.
SHARES = {
    "computing": ("computing", "#0072b2"),
    "tails": ("last tasks of a step", "#e69f00"),
    "handing_out": ("starting, handing out", "#cc79a7"),
    "store": ("the store", "#56b4e9"),
    "flow": ("the flow alone", "#d55e00"),
    "failures": ("failed workers", "#999999"),
}


def drawn_curve(forecasts: Sequence[Forecast]) -> str:
    """An SVG, shares stacked over the number of workers, which grows by factors."""
    logs = [math.log10(one.description.workers) for one in forecasts]
    low, high = min(logs), max(max(logs), min(logs) + 0.1)
    xs = [LEFT + (WIDTH - LEFT - RIGHT) * (x - low) / (high - low) for x in logs]
    below = [0.0] * len(forecasts)
    shapes, y_legend = [], TOP + 10
    for name, (words, colour) in SHARES.items():
        above = [b + one.losses[name] for b, one in zip(below, forecasts, strict=True)]
        outline = [*zip(xs, above, strict=True), *reversed(list(zip(xs, below, strict=True)))]
        points = " ".join(f"{x:.1f},{_y(share):.1f}" for x, share in outline)
        shapes.append(f'<polygon points="{points}" fill="{colour}"/>')
        shapes.append(f'<rect x="{WIDTH - RIGHT + 20}" y="{y_legend}" width="12" height="12" fill="{colour}"/>')
        shapes.append(f'<text x="{WIDTH - RIGHT + 38}" y="{y_legend + 11}">{words}</text>')
        below, y_legend = above, y_legend + 22
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
            'font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            f'<text x="{LEFT}" y="22" font-size="14">{_title(forecasts[0])}</text>',
            *shapes,
            *_axes(forecasts, xs),
            "</svg>\n",
        ]
    )


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share


def _title(one: Forecast) -> str:
    d = one.description
    return f"Where workers' time goes: {d.rows:,} rows, {d.keys:,} keys, {d.algorithm}, refine {d.refine}"


def _axes(forecasts: Sequence[Forecast], xs: Sequence[float]) -> list[str]:
    lines = []
    for share in (0.0, 0.25, 0.5, 0.75, 0.9, 1.0):
        y = _y(share)
        lines.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="black" stroke-opacity="0.3"/>'
        )
        lines.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    for x, one in zip(xs, forecasts, strict=True):
        y = _y(one.losses["computing"])
        lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="white" stroke="black"/>')
        lines.append(
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{one.description.workers:,}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    lines.append(f'<text x="{middle:.1f}" y="{HEIGHT - 8}" text-anchor="middle">workers</text>')
    return lines
