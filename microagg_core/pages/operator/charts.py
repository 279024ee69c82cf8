"""The charts: figures in, SVG out; each at the width of a phone, in two colours that differ in grey, too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from microagg_core.arrays import Floats
from microagg_core.inspect.portrait.contract import Distribution, Fit, Pair
from microagg_core.pages.operator.canvas import AFTER, BEFORE, INK, MUTED, WIDTH, Canvas, svg_of

#: Intervals whose widths differ more than so many times would leave nothing to see of the narrow ones.
_MOST_UNEVEN = 60.0
#: Levels of a cloud's density.
_LEVELS = (0.12, 0.25, 0.4, 0.6, 0.85)
_COLOURS = "RdBu_r"
#: Of dots: of means that stand for at least half as many records as the one of most, and of the others.
_LARGE, _SMALL = 3.2, 2.0


def distribution_chart(name: str, label: str, one: Distribution) -> str:
    """Areas of the records as they came, and a line around those that are released."""
    height, top, floor = 132.0, 8.0, 108.0
    places, has_widths = _places(one)
    widths = np.diff(places)
    scale = widths if has_widths else np.ones(len(widths))
    before, after = (np.asarray(counts, dtype=float) / scale for counts in (one.before, one.after))
    most = max(before.max(initial=0.0), after.max(initial=0.0)) or 1.0
    xs = 2.0 + (places - places[0]) / (places[-1] - places[0]) * (WIDTH - 4.0)

    def up(value: float) -> float:
        return floor - (floor - top) * float(value) / most

    def draw(canvas: Canvas) -> None:
        canvas.boxes([(xs[i], up(v), xs[i + 1], floor) for i, v in enumerate(before) if v], BEFORE, 0.3)
        steps = [(x, up(v)) for i, v in enumerate(after) for x in (xs[i], xs[i + 1])]
        canvas.line([(xs[0], floor), *steps, (xs[-1], floor)], AFTER)
        canvas.rule(0, floor, WIDTH, floor, colour=MUTED)
        at, words = ((xs[:-1] + xs[1:]) / 2, one.values) if one.values else (xs[1:-1], one.edge_words)
        _words_below(canvas, at, words, floor)

    return svg_of(name, label, height, draw)


def _places(one: Distribution) -> tuple[Floats, bool]:
    """Where intervals begin and end on paper, the open ones as wide as is usual; and whether widths mean something."""
    inner = np.asarray(one.edges, dtype=float)
    widths = np.diff(inner)
    if one.scale != "linear" or len(inner) < 2 or not 0 < widths.max() <= _MOST_UNEVEN * widths.min():
        return np.arange(len(one.before) + 1, dtype=float), False
    usual = float(np.median(widths))
    return np.concatenate([[inner[0] - usual], inner, [inner[-1] + usual]]), True


def _words_below(canvas: Canvas, xs: Floats, words: Sequence[str], floor: float) -> None:
    """Some places of the floor in words, so many as have room."""
    end = -math.inf
    for i in _wanted(xs):
        half = _HALF_LETTER * len(words[i])
        middle = min(max(float(xs[i]), half), WIDTH - half)
        if middle - half < end + 8:
            continue
        canvas.rule(float(xs[i]), floor, float(xs[i]), floor + 4, colour=MUTED)
        canvas.text(middle, floor + 16, words[i], align="center", colour=MUTED, small=True)
        end = middle + half


def _wanted(xs: Floats) -> list[int]:
    """Which of some places are named, if there is room: about four, the outermost among them."""
    n = len(xs)
    return sorted({round(i * (n - 1) / min(n - 1, 3)) for i in range(min(n, 4))}) if n > 1 else [0] * n


#: Of the small text, in units; digits are no wider.
_HALF_LETTER = 2.9


def pair_chart(name: str, label: str, one: Pair) -> str:
    """The cloud of records as they came in shades, and the means that stand for them as dots."""
    height, left, top, right, floor = 312.0, 4.0, 20.0, WIDTH - 4.0, 272.0
    x_edges, y_edges = np.asarray(one.x_edges, dtype=float), np.asarray(one.y_edges, dtype=float)
    counts = np.asarray(one.before, dtype=float).reshape(max(len(y_edges) - 1, 0), -1)

    def across(x: float) -> float:
        return float(left + (right - left) * min(max((x - x_edges[0]) / (x_edges[-1] - x_edges[0]), 0.0), 1.0))

    def up(y: float) -> float:
        return float(floor - (floor - top) * min(max((y - y_edges[0]) / (y_edges[-1] - y_edges[0]), 0.0), 1.0))

    def draw(canvas: Canvas) -> None:
        areas = np.outer(np.diff(y_edges), np.diff(x_edges))
        density = counts / areas
        level = np.ceil(len(_LEVELS) * np.sqrt(density / (density.max() or 1.0))).astype(int)
        for number, opacity in enumerate(_LEVELS, 1):
            cells = [
                (across(x_edges[j]), up(y_edges[i + 1]), across(x_edges[j + 1]), up(y_edges[i]))
                for i, j in np.argwhere(level == number)
            ]
            canvas.boxes(cells, BEFORE, opacity)
        most = max((mean.records for mean in one.means), default=1)
        for radius in (_LARGE, _SMALL):  # small dots lie above large ones
            dots = [(across(m.x), up(m.y)) for m in one.means if (2 * m.records >= most) == (radius == _LARGE)]
            if dots:
                canvas.dots(dots, AFTER, radius)
        canvas.rule(left, floor, right, floor, colour=MUTED)
        canvas.rule(left, floor, left, top, colour=MUTED)
        canvas.text(0, 12, f"↑ {one.y}, {one.y_words[0]} to {one.y_words[-1]}", colour=INK)
        canvas.text(left, floor + 15, one.x_words[0], colour=MUTED, small=True)
        canvas.text(right, floor + 15, one.x_words[-1], align="right", colour=MUTED, small=True)
        canvas.text(right, floor + 32, f"{one.x} →", align="right", colour=INK)

    return svg_of(name, label, height, draw)


def correlation_chart(name: str, label: str, matrix: Floats, limit: float) -> str:
    """A matrix as coloured cells: red above 0, blue below, white at 0; what is no number is left empty."""
    p, top = len(matrix), 4.0
    side, decimals = WIDTH - 8.0, 2 if limit > 0.1 else 3

    def draw(canvas: Canvas) -> None:
        canvas.image(np.asarray(matrix, dtype=float), (4.0, top, 4.0 + side, top + side), _COLOURS, limit)
        if p > _MOST_NUMBERED:
            return
        for i in range(p):
            for j in range(p):
                value = matrix[i][j]
                if math.isfinite(value):
                    x, y = 4.0 + side * (j + 0.5) / p, top + side * (i + 0.5) / p + 4
                    dark = abs(value) > 0.65 * limit
                    near = round(float(value), decimals) + 0.0  # of what is nearly 0, no sign
                    words = f"{near:.{decimals}f}"
                    words = words.replace("0.", ".", 1) if abs(near) < 1 else words.rstrip("0").rstrip(".")
                    canvas.text(x, y, words, align="center", colour="#ffffff" if dark else "#1b1b1b", small=True)

    return svg_of(name, label, side + 8.0, draw)


#: Columns up to which each cell has its number in it.
_MOST_NUMBERED = 9


@dataclass(frozen=True)
class Bar:
    """A bar: what it is of, how long it is, that in words, and a mark beside which it is seen."""

    name: str
    length: float
    words: str
    mark: float | None = None


def bars_chart(name: str, label: str, bars: Sequence[Bar], *, colour: str = AFTER, most: float | None = None) -> str:
    """Bars from the left, each under its name; a mark is a ring on its line."""
    step, thick = 32.0, 9.0
    longest = most or max((max(bar.length, bar.mark or 0.0) for bar in bars), default=0.0) or 1.0

    def draw(canvas: Canvas) -> None:
        for i, bar in enumerate(bars):
            y = 12.0 + i * step
            room = max(_LETTERS_OF_A_BAR - len(bar.words), 12)
            canvas.text(0, y, _cut(bar.name, room))
            canvas.text(WIDTH, y, bar.words, align="right", colour=INK)
            y += 6.0
            end = 4.0 + (WIDTH - 8.0) * min(bar.length / longest, 1.0)
            canvas.rule(4.0, y + thick / 2, WIDTH - 4.0, y + thick / 2)
            if bar.length > 0:
                canvas.boxes([(4.0, y, max(end, 5.0), y + thick)], colour)
            if bar.mark is not None:
                x = 4.0 + (WIDTH - 8.0) * min(bar.mark / longest, 1.0)
                canvas.ring(x, y + thick / 2, 4.5)

    return svg_of(name, label, len(bars) * step + 2.0, draw)


_LETTERS_OF_A_BAR = 58


def _cut(words: str, most: int) -> str:
    from microagg_core.pages.operator.canvas import cut_short

    return cut_short(words, most)


@dataclass(frozen=True)
class Spell:
    """A stage of a run: when it began and how long it took, in seconds."""

    name: str
    start: float
    seconds: float
    words: str


def timeline_chart(name: str, label: str, spells: Sequence[Spell]) -> str:
    """Spells of time one below the other, each where it was."""
    step = 24.0
    whole = max((spell.start + spell.seconds for spell in spells), default=0.0) or 1.0
    left = 84.0

    def draw(canvas: Canvas) -> None:
        for i, spell in enumerate(spells):
            y = 15.0 + i * step
            x0 = left + (WIDTH - left - 62.0) * spell.start / whole
            x1 = left + (WIDTH - left - 62.0) * (spell.start + spell.seconds) / whole
            canvas.text(0, y, spell.name)
            canvas.boxes([(x0, y - 9.0, max(x1, x0 + 1.5), y + 1.0)], BEFORE)
            canvas.text(WIDTH, y, spell.words, align="right", colour=MUTED, small=True)

    return svg_of(name, label, len(spells) * step + 4.0, draw)


def columns_chart(name: str, label: str, columns: Sequence[tuple[str, float]]) -> str:
    """Columns from a floor, some of them named."""
    height, top, floor = 150.0, 10.0, 124.0
    most = max((value for _, value in columns), default=0.0) or 1.0
    step = (WIDTH - 4.0) / max(len(columns), 1)
    named = max(1, math.ceil(len(columns) * max(len(word) for word, _ in columns) * 6.5 / WIDTH)) if columns else 1

    def draw(canvas: Canvas) -> None:
        boxes = [
            (2 + i * step + 0.08 * step, floor - (floor - top) * value / most, 2 + (i + 1) * step - 0.08 * step, floor)
            for i, (_, value) in enumerate(columns)
            if value
        ]
        canvas.boxes(boxes, AFTER)
        canvas.rule(0, floor, WIDTH, floor, colour=MUTED)
        for i in range(0, len(columns), named):
            canvas.text(2 + (i + 0.5) * step, floor + 15, columns[i][0], align="center", colour=MUTED, small=True)

    return svg_of(name, label, height, draw)


def share_curve(name: str, label: str, points: Sequence[tuple[float, float]], x_words: str, y_words: str) -> str:
    """A curve of shares between 0 and 1, beside the straight line of what would be even."""
    height, top, floor = 250.0, 22.0, 212.0

    def at(x: float, y: float) -> tuple[float, float]:
        return 2.0 + (WIDTH - 4.0) * x, floor - (floor - top) * y

    def draw(canvas: Canvas) -> None:
        canvas.rule(*at(0, 0), *at(1, 1), colour=MUTED)
        canvas.line([at(x, y) for x, y in points], AFTER)
        canvas.rule(*at(0, 0), *at(1, 0), colour=MUTED)
        canvas.rule(*at(0, 0), *at(0, 1), colour=MUTED)
        canvas.text(0, 13, f"↑ {y_words}")
        canvas.text(2, floor + 14, "0 %", colour=MUTED, small=True)
        canvas.text(WIDTH - 2, floor + 14, "100 %", align="right", colour=MUTED, small=True)
        canvas.text(WIDTH, floor + 31, f"{x_words} →", align="right")

    return svg_of(name, label, height, draw)


def choices_chart(name: str, label: str, points: Sequence[tuple[str, float, str]], asked: int) -> str:
    """One figure for several choices: columns with their figure on top; that of the choice asked is full."""
    height, top, floor = 168.0, 26.0, 142.0
    most = max((value for _, value, _ in points), default=0.0) or 1.0
    step = WIDTH / max(len(points), 1)

    def draw(canvas: Canvas) -> None:
        for i, (word, value, words) in enumerate(points):
            y = floor - (floor - top) * value / most
            canvas.boxes([(step * (i + 0.25), y, step * (i + 0.75), floor)], AFTER, 1.0 if i == asked else 0.45)
            canvas.text(step * (i + 0.5), y - 6, words, align="center")
            canvas.text(step * (i + 0.5), floor + 17, word, align="center", colour=INK if i == asked else MUTED)
        canvas.rule(0, floor, WIDTH, floor, colour=MUTED)

    return svg_of(name, label, height, draw)


def fits_chart(name: str, label: str, terms: Sequence[str], before: Fit, after: Fit) -> str:
    """Coefficients with what two standard errors leave open, each term on the scale of its own error before."""
    step = 34.0
    rows = [
        ((b - b) / e, 2.0, (a - b) / e, 2.0 * ae / e)
        for b, e, a, ae in zip(before.coefficients, before.errors, after.coefficients, after.errors, strict=True)
        if e > 0 and math.isfinite(e) and math.isfinite(a) and math.isfinite(ae)
    ]
    names = [term for term, e in zip(terms, before.errors, strict=True) if e > 0 and math.isfinite(e)]
    most = max((abs(a) + ae for _, _, a, ae in rows), default=2.0)
    limit = min(max(most, 3.0), _MOST_ERRORS)

    def across(value: float) -> float:
        return WIDTH / 2 + (WIDTH / 2 - 6.0) * max(-1.0, min(1.0, value / limit))

    def draw(canvas: Canvas) -> None:
        canvas.rule(across(0), 16, across(0), len(rows) * step + 2)
        for i, (term, (b, be, a, ae)) in enumerate(zip(names, rows, strict=False)):
            y = 12.0 + i * step
            canvas.text(0, y, term)
            for value, off, colour, line in ((b, be, BEFORE, y + 8), (a, ae, AFTER, y + 15)):
                canvas.rule(across(value - off), line, across(value + off), line, colour=colour, width=2.0)
                canvas.dots([(across(value), line)], colour, 3.2)

    return svg_of(name, label, max(len(rows), 1) * step + 4.0, draw)


#: Standard errors on each side of the middle; what lies beyond is drawn at the border.
_MOST_ERRORS = 40.0
