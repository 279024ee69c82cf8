"""A canvas for one chart, and the SVG that a page takes in: small, the same from the same figures, without metadata.

Matplotlib draws; text stays text. Colours become variables of the page's style, so that the page decides them. All
charts are as wide as a phone, and a wider page puts several beside each other: no text in them ever shrinks.
"""

from __future__ import annotations

import io
import logging
import math
import os
import re
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from microagg_core.kernels import LASTING_TMPDIR

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Units of a chart's own; a page shows one as about a pixel.
WIDTH = 340
#: Colours by what they are for. They stand for variables of the style sheet, which has them for paper and the dark.
BEFORE, AFTER, INK, MUTED, RULE = "#1f4e8d", "#d26a01", "#1c2431", "#5b6676", "#d5dae2"
PAPER = "#fefefd"
_VARIABLES = {BEFORE: "before", AFTER: "after", INK: "ink", MUTED: "muted", RULE: "rule", PAPER: "paper"}
_TEXT, _SMALL = 10.5, 9.5
#: Letters of a usual font that fit beside each other in a chart's width.
_LETTERS = 58

_DROPPED = re.compile(
    r"<\?xml[^>]*>|<!DOCTYPE[^>]*>|<!--.*?-->|<metadata>.*?</metadata>|<defs>\s*<style.*?</defs>|<defs\s*/>",
    re.DOTALL,
)
_TAG = re.compile(r"<[a-z][^>]*>")
_LONG = re.compile(r"-?\d+\.\d{3,}")
_OWN_ID = re.compile(r' id="(?:figure|axes|patch|line2d|text|matplotlib|xtick|ytick|[A-Z]\w*?)[\w.]*_\d+"')
_FONT = re.compile(r"font: ([\d.]+)px [^;\"]*")
_FAMILY = re.compile(r" font-family: [^;\"]*;?")
_STANDING = re.compile(r' transform="rotate\(-?0(?:\.0+)? [^"]*\)"')
_OPENING = re.compile(r"<svg[^>]*>")
#: What the library draws behind everything, and groups without a meaning.
_EMPTY = re.compile(r'<path d="[^"]*" style="fill: none"/>|</?g>')
_TURN = re.compile(r"\s*\n\s*(?:L )?")


class Canvas:
    """The plane of one chart: ``width`` and ``height`` units, the upper left corner is 0, 0."""

    def __init__(self, axes: Axes, height: float) -> None:
        self.axes = axes
        self.height = height
        self._drawn = 0

    def _above(self) -> float:
        """What is drawn later lies above what is there."""
        self._drawn += 1
        return 1.0 + self._drawn / 100.0

    def text(
        self, x: float, y: float, words: str, *, align: str = "left", colour: str = INK, small: bool = False
    ) -> None:
        """Words whose line stands at ``y``; what is longer than a chart is wide is cut off with an ellipsis."""
        self.axes.text(
            x, y, cut_short(words), ha=align, va="baseline", color=colour, size=_SMALL if small else _TEXT,
            parse_math=False, zorder=self._above(),
        )  # fmt: skip

    def rule(self, x0: float, y0: float, x1: float, y1: float, *, colour: str = RULE, width: float = 1.0) -> None:
        """A straight line."""
        self.axes.plot(
            [x0, x1], [y0, y1], color=colour, lw=width, clip_on=False, solid_capstyle="butt", zorder=self._above()
        )

    def boxes(self, boxes: Sequence[tuple[float, float, float, float]], colour: str, opacity: float = 1.0) -> None:
        """Filled boxes (left, top, right, bottom), drawn as one shape."""
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path as Shape

        if not boxes:
            return
        corners = [p for x0, y0, x1, y1 in boxes for p in ((x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0))]
        codes = [Shape.MOVETO, Shape.LINETO, Shape.LINETO, Shape.LINETO, Shape.CLOSEPOLY] * len(boxes)
        patch = PathPatch(Shape(corners, codes), fc=colour, ec="none", alpha=opacity, clip_on=False)
        patch.set_zorder(self._above())
        self.axes.add_patch(patch)

    def line(self, points: Sequence[tuple[float, float]], colour: str, width: float = 1.8) -> None:
        """A line through points."""
        xs, ys = zip(*points, strict=True)
        self.axes.plot(xs, ys, color=colour, lw=width, clip_on=False, solid_joinstyle="round", zorder=self._above())

    def dots(self, points: Sequence[tuple[float, float]], colour: str, radius: float) -> None:
        """Full dots with a rim of paper, drawn as one shape: lines without length that have round ends."""
        for shade, width in ((PAPER, 2 * radius + 1.5), (colour, 2 * radius)):
            xs, ys = ([c for p in points for c in (p[axis], p[axis], math.nan)] for axis in (0, 1))
            self.axes.plot(xs, ys, color=shade, lw=width, solid_capstyle="round", clip_on=False, zorder=self._above())

    def ring(self, x: float, y: float, radius: float) -> None:
        """A mark beside which something is seen."""
        self.dots([(x, y)], INK, radius)
        self.dots([(x, y)], PAPER, radius - 2.2)

    def image(self, rows: Any, box: tuple[float, float, float, float], colours: str, limit: float) -> None:
        """A matrix as cells of a diverging scale from ``-limit`` to ``limit`` in a box (left, top, right, bottom)."""
        left, top, right, bottom = box
        self.axes.imshow(
            rows, cmap=colours, vmin=-limit, vmax=limit, extent=(left, right, bottom, top), interpolation="none",
            aspect="auto", clip_on=False,
        )  # fmt: skip
        self.axes.set(xlim=(0, WIDTH), ylim=(self.height, 0))


def cut_short(words: str, most: int = _LETTERS) -> str:
    """Words that fit into a chart.

    >>> cut_short("age"), cut_short("a" * 30, 10)
    ('age', 'aaaaaaaaa…')
    """
    plain = " ".join(words.split())
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def svg_of(name: str, label: str, height: float, draw: Any) -> str:
    """The SVG of a chart.

    Args:
        name: the same for no two charts of a page.
        label: what it shows, for who does not see it.
        height: in units.
        draw: is handed the canvas.
    """
    matplotlib = _matplotlib()
    figure_module = import_module("matplotlib.figure")
    settings = {"svg.fonttype": "none", "svg.hashsalt": name, "svg.image_inline": True, "path.simplify": False}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that no font here has; the reader's may
        figure = figure_module.Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
        axes = figure.add_axes((0, 0, 1, 1), frameon=False, xlim=(0, WIDTH), ylim=(height, 0))
        axes.set_axis_off()
        draw(Canvas(axes, height))
        sink = io.BytesIO()
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(sink, format="svg", transparent=True, metadata=metadata)
    return _trimmed(sink.getvalue().decode(), label, height)


def _trimmed(svg: str, label: str, height: float) -> str:
    """What a page needs of it; figures in tags with two decimals."""
    text = _DROPPED.sub("", svg)
    text = _TAG.sub(_shorter, text)
    quoted = label.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    box = f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{quoted}">'
    return _EMPTY.sub("", _OPENING.sub(lambda _: box, text, count=1)).strip()


def _shorter(tag: re.Match[str]) -> str:
    text = tag[0]
    if text.startswith("<image"):
        return text
    text = _STANDING.sub("", _OWN_ID.sub("", text))
    text = _LONG.sub(lambda n: f"{float(n[0]):.2f}".rstrip("0").rstrip("."), text)
    text = _TURN.sub(" ", _FAMILY.sub("", _FONT.sub(r"font-size: \1px", text)))
    for colour, name in _VARIABLES.items():
        text = text.replace(colour, f"var(--{name})")
    return text


@cache
def _matplotlib() -> Any:
    """The library, with its cache where ours is: it says nothing on a terminal and writes nothing below a home."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with _cache_folder():
        matplotlib = import_module("matplotlib")
        import_module("matplotlib.font_manager")
    return matplotlib


@contextmanager
def _cache_folder() -> Iterator[None]:
    """The library looks up the fonts of a machine once, and keeps what it saw; a user's own setting stays."""
    if os.environ.get("MPLCONFIGDIR"):
        yield
        return
    os.environ["MPLCONFIGDIR"] = str(_writable_folder())
    try:
        yield
    finally:
        del os.environ["MPLCONFIGDIR"]


def _writable_folder() -> Path:
    """The first of the usual places of our cache that can be written to, or a temporary folder."""
    named = [os.environ[name] for name in ("MICROAGG_CACHE_DIR",) if os.environ.get(name)]
    usual = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "microagg"
    places = [*map(Path, named), usual]
    with suppress(OSError):
        places.append(Path(os.environ.get(LASTING_TMPDIR) or tempfile.gettempdir()) / f"microagg-{os.getuid()}")
    for place in places:
        with suppress(OSError, RuntimeError):
            folder = place.expanduser().absolute() / "charts"
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.access(folder, os.W_OK | os.X_OK) and folder.lstat().st_uid == os.getuid():
                return folder
    return Path(tempfile.mkdtemp(prefix="microagg-charts-"))
