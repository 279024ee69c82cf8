"""Draw the charts of the operator's page as SVG, each as wide as a phone, in two colours that differ in grey.

The colours are variables of the page's style sheet, which has them for paper and the dark. A wider page puts several
charts beside each other, so no text in them ever shrinks.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from microagg_core.arrays import Floats
from microagg_core.inspect.portrait.contract import Distribution, Fit, Pair

#: In units of the chart's own; a page shows one as about a pixel.
WIDTH = 340
BEFORE, AFTER, INK, MUTED, RULE, PAPER = (
    f"var(--{name})" for name in ("before", "after", "ink", "muted", "rule", "paper")
)
_TEXT, _SMALL_TEXT = 10.5, 9.5
#: Letters of a usual font that fit beside each other in a chart's width; half the width of a small letter, in units.
_LETTERS, _HALF_LETTER = 58, 2.9
#: Intervals whose widths differ more than so many times would leave nothing to see of the narrow ones.
_MOST_UNEVEN = 60.0
#: Opacities of a cloud, by its density.
_OPACITIES = (0.12, 0.25, 0.4, 0.6, 0.85)
#: Radii of dots: of means that stand for at least half as many records as the one of most, and of the others.
_LARGE, _SMALL = 3.2, 2.0
#: ColorBrewer's RdBu, from blue over white to red.
_DIVERGING = (
    "053061 2166ac 4393c3 92c5de d1e5f0 f7f7f7 fddbc7 f4a582 d6604d b2182b 67001f"
)  # fmt: skip
#: Columns of a matrix up to which each cell has its number in it.
_MOST_NUMBERED = 9
#: Standard errors on each side of the middle; what lies beyond is drawn at the border.
_MOST_ERRORS = 40.0

Box = tuple[float, float, float, float]
Point = tuple[float, float]


class Canvas:
    """The elements of one chart, the later above the earlier; the upper left corner is 0, 0."""

    def __init__(self, height: float) -> None:
        self._height = height
        self._elements: list[str] = []

    def svg(self, label: str) -> str:
        """The chart, with a label for who does not see it."""
        head = f'<svg viewBox="0 0 {WIDTH} {self._height:g}" role="img" aria-label="{escape(label)}">'
        return "\n".join([head, *self._elements, "</svg>"])

    def text(
        self, x: float, y: float, words: str, *, align: str = "start", colour: str = INK, small: bool = False
    ) -> None:
        """Words whose line stands at ``y``; what is longer than a chart is wide is cut off with an ellipsis."""
        style = f"font-size: {_SMALL_TEXT if small else _TEXT}px; text-anchor: {align}; fill: {colour}"
        place = f'x="{_number(x)}" y="{_number(y)}"'
        self._elements.append(f'<text style="{style}" {place}>{escape(cut_short(words), quote=False)}</text>')

    def rule(self, x0: float, y0: float, x1: float, y1: float, *, colour: str = RULE, width: float = 1.0) -> None:
        self._path(f"M{_point(x0, y0)} {_point(x1, y1)}", f"fill: none; stroke: {colour}; stroke-width: {width:g}")

    def boxes(self, boxes: Sequence[Box], colour: str, opacity: float = 1.0) -> None:
        """Filled boxes (left, top, right, bottom), as one path."""
        shape = "".join(f"M{_point(x0, y0)}H{_number(x1)}V{_number(y1)}H{_number(x0)}z" for x0, y0, x1, y1 in boxes)
        if shape:
            self._path(shape, f"fill: {colour}" + (f"; opacity: {opacity:g}" if opacity < 1 else ""))

    def line(self, points: Sequence[Point], colour: str, width: float = 1.8) -> None:
        style = f"fill: none; stroke: {colour}; stroke-width: {width:g}; stroke-linejoin: round"
        self._path("M" + " ".join(_point(x, y) for x, y in points), style)

    def dots(self, points: Sequence[Point], colour: str, radius: float) -> None:
        """Full dots with a rim of paper, as one path: lines without length that have round ends."""
        shape = "".join(f"M{_point(x, y)}h0" for x, y in points)
        for shade, width in ((PAPER, 2 * radius + 1.5), (colour, 2 * radius)):
            self._path(shape, f"fill: none; stroke: {shade}; stroke-width: {width:g}; stroke-linecap: round")

    def matrix(self, values: Floats, left: float, top: float, side: float, limit: float) -> None:
        """Cells of a diverging scale from ``-limit`` to ``limit``; what is no number is left empty."""
        data = base64.b64encode(_png(_colours(values / limit))).decode()
        place = f'x="{_number(left)}" y="{_number(top)}" width="{_number(side)}" height="{_number(side)}"'
        style = "image-rendering: crisp-edges; image-rendering: pixelated"
        self._elements.append(
            f'<image href="data:image/png;base64,{data}" {place} preserveAspectRatio="none" style="{style}"/>'
        )

    def _path(self, shape: str, style: str) -> None:
        self._elements.append(f'<path d="{shape}" style="{style}"/>')


def _number(value: float) -> str:
    """Write a coordinate with two decimals at most.

    >>> _number(1.5), _number(12.0), _number(-0.001)
    ('1.5', '12', '0')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _point(x: float, y: float) -> str:
    return f"{_number(x)} {_number(y)}"


def _colours(shares: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Red, green, blue and opacity of values between -1 and 1.

    >>> _colours(np.array([[0.0, -1.0, np.nan]]))[0].tolist()
    [[247, 247, 247, 255], [5, 48, 97, 255], [0, 0, 0, 0]]
    """
    stops = np.array([list(bytes.fromhex(colour)) for colour in _DIVERGING.split()], dtype=float)
    there = np.isfinite(shares)
    at = (np.where(there, shares, 0.0).clip(-1.0, 1.0) + 1.0) / 2.0
    places = np.linspace(0.0, 1.0, len(stops))
    channels = [np.where(there, np.interp(at, places, stops[:, c]), 0.0) for c in range(3)]
    return np.stack([*channels, np.where(there, 255.0, 0.0)], axis=-1).round().astype(np.uint8)


def _png(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)  # each row begins with its filter: none
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def cut_short(words: str, most: int = _LETTERS) -> str:
    """Cut words to what fits into a chart.

    >>> cut_short("age"), cut_short("a" * 30, 10)
    ('age', 'aaaaaaaaa…')
    """
    plain = " ".join(words.split())
    return plain if len(plain) <= most else plain[: most - 1] + "…"


# --- Distributions and pairs -----------------------------------------------------------------------------------


def distribution_chart(label: str, column: Distribution) -> str:
    """Draw the records as they came as areas, and those that are released as a line around them."""
    height, top, floor = 132.0, 8.0, 108.0
    places, has_widths = _interval_ends(column)
    widths = np.diff(places)
    scale = widths if has_widths else np.ones(len(widths))
    before, after = (np.asarray(counts, dtype=float) / scale for counts in (column.before, column.after))
    most = max(before.max(initial=0.0), after.max(initial=0.0)) or 1.0
    xs = 2.0 + (places - places[0]) / (places[-1] - places[0]) * (WIDTH - 4.0)

    def up(value: float) -> float:
        return floor - (floor - top) * float(value) / most

    canvas = Canvas(height)
    canvas.boxes([(xs[i], up(v), xs[i + 1], floor) for i, v in enumerate(before) if v], BEFORE, 0.3)
    steps = [(x, up(v)) for i, v in enumerate(after) for x in (xs[i], xs[i + 1])]
    canvas.line([(xs[0], floor), *steps, (xs[-1], floor)], AFTER)
    canvas.rule(0, floor, WIDTH, floor, colour=MUTED)
    at, words = ((xs[:-1] + xs[1:]) / 2, column.values) if column.values else (xs[1:-1], column.edge_words)
    _label_floor(canvas, at, words, floor)
    return canvas.svg(label)


def _interval_ends(column: Distribution) -> tuple[Floats, bool]:
    """Where intervals end on paper, the open ones as wide as is usual; and whether their widths mean something."""
    inner = np.asarray(column.edges, dtype=float)
    widths = np.diff(inner)
    if column.scale != "linear" or len(inner) < 2 or not 0 < widths.max() <= _MOST_UNEVEN * widths.min():
        return np.arange(len(column.before) + 1, dtype=float), False
    usual = float(np.median(widths))
    return np.concatenate([[inner[0] - usual], inner, [inner[-1] + usual]]), True


def _label_floor(canvas: Canvas, xs: Floats, words: Sequence[str], floor: float) -> None:
    """Name about four places of the floor, the outermost among them, as far as there is room."""
    n, end = len(xs), -math.inf
    for i in sorted({round(i * (n - 1) / max(min(n - 1, 3), 1)) for i in range(min(n, 4))}):
        half = _HALF_LETTER * len(words[i])
        middle = min(max(float(xs[i]), half), WIDTH - half)
        if middle - half < end + 8:
            continue
        canvas.rule(float(xs[i]), floor, float(xs[i]), floor + 4, colour=MUTED)
        canvas.text(middle, floor + 16, words[i], align="middle", colour=MUTED, small=True)
        end = middle + half


def pair_chart(label: str, pair: Pair) -> str:
    """Draw the records as they came as shaded cells, and the means that stand for them as dots."""
    height, left, top, right, floor = 312.0, 4.0, 20.0, WIDTH - 4.0, 272.0
    x_edges, y_edges = np.asarray(pair.x_edges, dtype=float), np.asarray(pair.y_edges, dtype=float)
    counts = np.asarray(pair.before, dtype=float).reshape(max(len(y_edges) - 1, 0), -1)

    def across(x: float) -> float:
        return float(left + (right - left) * min(max((x - x_edges[0]) / (x_edges[-1] - x_edges[0]), 0.0), 1.0))

    def up(y: float) -> float:
        return float(floor - (floor - top) * min(max((y - y_edges[0]) / (y_edges[-1] - y_edges[0]), 0.0), 1.0))

    canvas = Canvas(height)
    density = counts / np.outer(np.diff(y_edges), np.diff(x_edges))
    level = np.ceil(len(_OPACITIES) * np.sqrt(density / (density.max() or 1.0))).astype(int)
    for number, opacity in enumerate(_OPACITIES, 1):
        cells = [
            (across(x_edges[j]), up(y_edges[i + 1]), across(x_edges[j + 1]), up(y_edges[i]))
            for i, j in np.argwhere(level == number)
        ]
        canvas.boxes(cells, BEFORE, opacity)
    most = max((mean.records for mean in pair.means), default=1)
    for radius in (_LARGE, _SMALL):  # small dots lie above large ones
        dots = [(across(m.x), up(m.y)) for m in pair.means if (2 * m.records >= most) == (radius == _LARGE)]
        if dots:
            canvas.dots(dots, AFTER, radius)
    canvas.rule(left, floor, right, floor, colour=MUTED)
    canvas.rule(left, floor, left, top, colour=MUTED)
    canvas.text(0, 12, f"↑ {pair.y}, {pair.y_words[0]} to {pair.y_words[-1]}")
    canvas.text(left, floor + 15, pair.x_words[0], colour=MUTED, small=True)
    canvas.text(right, floor + 15, pair.x_words[-1], align="end", colour=MUTED, small=True)
    canvas.text(right, floor + 32, f"{pair.x} →", align="end")
    return canvas.svg(label)


# --- Correlations and coefficients -----------------------------------------------------------------------------


def correlation_chart(label: str, matrix: Floats, limit: float) -> str:
    """Draw a matrix as coloured cells: red above 0, blue below, white at 0; what is no number is left empty."""
    p, top, side = len(matrix), 4.0, WIDTH - 8.0
    values = np.asarray(matrix, dtype=float)
    canvas = Canvas(side + 8.0)
    canvas.matrix(values, 4.0, top, side, limit)
    for i, j in np.argwhere(np.isfinite(values)).tolist() if p <= _MOST_NUMBERED else ():
        value = float(values[i, j])
        x, y = 4.0 + side * (j + 0.5) / p, top + side * (i + 0.5) / p + 4
        colour = "#ffffff" if abs(value) > 0.65 * limit else "#1b1b1b"
        canvas.text(x, y, _in_cell(value, 2 if limit > 0.1 else 3), align="middle", colour=colour, small=True)
    return canvas.svg(label)


def _in_cell(value: float, decimals: int) -> str:
    """Write a correlation in few letters.

    >>> _in_cell(0.4, 2), _in_cell(-0.001, 2), _in_cell(1.0, 2)
    ('.40', '.00', '1')
    """
    near = round(value, decimals) + 0.0  # of what is nearly 0, no sign
    words = f"{near:.{decimals}f}"
    return words.replace("0.", ".", 1) if abs(near) < 1 else words.rstrip("0").rstrip(".")


def fits_chart(label: str, terms: Sequence[str], before: Fit, after: Fit) -> str:
    """Draw coefficients with two standard errors to each side, each term on the scale of its own error before."""
    step = 34.0
    sides = zip(terms, before.coefficients, before.errors, after.coefficients, after.errors, strict=True)
    rows = [(term, (a - b) / e, 2.0 * ae / e) for term, b, e, a, ae in sides if e > 0 and np.isfinite([e, a, ae]).all()]
    limit = min(max(max((abs(a) + error for _, a, error in rows), default=2.0), 3.0), _MOST_ERRORS)

    def across(value: float) -> float:
        return WIDTH / 2 + (WIDTH / 2 - 6.0) * max(-1.0, min(1.0, value / limit))

    canvas = Canvas(max(len(rows), 1) * step + 4.0)
    canvas.rule(across(0), 16, across(0), len(rows) * step + 2)
    for i, (term, change, error) in enumerate(rows):
        y = 12.0 + i * step
        canvas.text(0, y, term)
        for value, off, colour, line in ((0.0, 2.0, BEFORE, y + 8), (change, error, AFTER, y + 15)):
            canvas.rule(across(value - off), line, across(value + off), line, colour=colour, width=2.0)
            canvas.dots([(across(value), line)], colour, 3.2)
    return canvas.svg(label)


# --- Bars, columns, curves -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bar:
    """A bar: its name, length, that in words, and a mark beside which it is seen."""

    name: str
    length: float
    words: str
    mark: float | None = None


def bars_chart(label: str, bars: Sequence[Bar], *, most: float | None = None) -> str:
    """Draw bars from the left, each under its name; a mark is a ring on its line."""
    step, thick = 32.0, 9.0
    longest = most or max((max(bar.length, bar.mark or 0.0) for bar in bars), default=0.0) or 1.0
    canvas = Canvas(len(bars) * step + 2.0)
    for i, bar in enumerate(bars):
        y = 12.0 + i * step
        canvas.text(0, y, cut_short(bar.name, max(_LETTERS - len(bar.words), 12)))
        canvas.text(WIDTH, y, bar.words, align="end")
        y += 6.0
        end = 4.0 + (WIDTH - 8.0) * min(bar.length / longest, 1.0)
        canvas.rule(4.0, y + thick / 2, WIDTH - 4.0, y + thick / 2)
        if bar.length > 0:
            canvas.boxes([(4.0, y, max(end, 5.0), y + thick)], AFTER)
        if bar.mark is not None:
            middle = 4.0 + (WIDTH - 8.0) * min(bar.mark / longest, 1.0), y + thick / 2
            canvas.dots([middle], INK, 4.5)
            canvas.dots([middle], PAPER, 2.3)
    return canvas.svg(label)


def timeline_chart(label: str, stages: Sequence[tuple[str, float, str]]) -> str:
    """Draw the stages of a run (name, seconds, these in words) one below the other, each where it was."""
    step, left, right = 24.0, 84.0, WIDTH - 62.0
    whole = sum(seconds for _, seconds, _ in stages) or 1.0
    canvas, start = Canvas(len(stages) * step + 4.0), 0.0
    for i, (name, seconds, words) in enumerate(stages):
        y = 15.0 + i * step
        x0, x1 = (left + (right - left) * at / whole for at in (start, start + seconds))
        canvas.text(0, y, name)
        canvas.boxes([(x0, y - 9.0, max(x1, x0 + 1.5), y + 1.0)], BEFORE)
        canvas.text(WIDTH, y, words, align="end", colour=MUTED, small=True)
        start += seconds
    return canvas.svg(label)


def columns_chart(label: str, columns: Sequence[tuple[str, float]]) -> str:
    """Draw columns from a floor, some of them named."""
    height, top, floor = 150.0, 10.0, 124.0
    most = max((value for _, value in columns), default=0.0) or 1.0
    step = (WIDTH - 4.0) / max(len(columns), 1)
    named = max(1, math.ceil(len(columns) * max(len(word) for word, _ in columns) * 6.5 / WIDTH)) if columns else 1
    boxes = [
        (2 + i * step + 0.08 * step, floor - (floor - top) * value / most, 2 + (i + 1) * step - 0.08 * step, floor)
        for i, (_, value) in enumerate(columns)
        if value
    ]
    canvas = Canvas(height)
    canvas.boxes(boxes, AFTER)
    canvas.rule(0, floor, WIDTH, floor, colour=MUTED)
    for i in range(0, len(columns), named):
        canvas.text(2 + (i + 0.5) * step, floor + 15, columns[i][0], align="middle", colour=MUTED, small=True)
    return canvas.svg(label)


def share_curve(label: str, points: Sequence[Point], x_words: str, y_words: str) -> str:
    """Draw a curve of shares between 0 and 1, beside the straight line of what would be even."""
    height, top, floor = 250.0, 22.0, 212.0

    def at(x: float, y: float) -> Point:
        return 2.0 + (WIDTH - 4.0) * x, floor - (floor - top) * y

    canvas = Canvas(height)
    canvas.rule(*at(0, 0), *at(1, 1), colour=MUTED)
    canvas.line([at(x, y) for x, y in points], AFTER)
    canvas.rule(*at(0, 0), *at(1, 0), colour=MUTED)
    canvas.rule(*at(0, 0), *at(0, 1), colour=MUTED)
    canvas.text(0, 13, f"↑ {y_words}")
    canvas.text(2, floor + 14, "0 %", colour=MUTED, small=True)
    canvas.text(WIDTH - 2, floor + 14, "100 %", align="end", colour=MUTED, small=True)
    canvas.text(WIDTH, floor + 31, f"{x_words} →", align="end")
    return canvas.svg(label)


def choices_chart(label: str, points: Sequence[tuple[str, float, str]], asked: int) -> str:
    """Draw one figure for several choices as columns with the figure on top; that of the choice asked is full."""
    height, top, floor = 168.0, 26.0, 142.0
    most = max((value for _, value, _ in points), default=0.0) or 1.0
    step = WIDTH / max(len(points), 1)
    canvas = Canvas(height)
    for i, (word, value, words) in enumerate(points):
        y = floor - (floor - top) * value / most
        canvas.boxes([(step * (i + 0.25), y, step * (i + 0.75), floor)], AFTER, 1.0 if i == asked else 0.45)
        canvas.text(step * (i + 0.5), y - 6, words, align="middle")
        canvas.text(step * (i + 0.5), floor + 17, word, align="middle", colour=INK if i == asked else MUTED)
    canvas.rule(0, floor, WIDTH, floor, colour=MUTED)
    return canvas.svg(label)
