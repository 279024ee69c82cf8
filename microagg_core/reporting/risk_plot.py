"""Risk against loss, as a picture: one mark for each setting that was tried. For the operator alone."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from microagg_core.comparing.choosing import ReleaseComparison
from microagg_core.steps.expecting.figures import Expected

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "os^Dvp*hXP<>d8H"
#: By refinement: the darker, the more is done. Readable in grey, as fill says it and no colour does.
_FILLS = {"off": "white", "fast": "0.72", "thorough": "0.15"}
_EDGE = "0.1"
_SIZE = (8.0, 5.5)
#: Ids of the picture's parts are the same each time.
_SALT = "microagg"


def risk_picture(found: ReleaseComparison, form: str) -> bytes:
    """The share of records that are linked rightly against the loss, as svg, png or pdf."""
    import matplotlib as mpl

    data = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": _SALT}):
        _drawn(found).savefig(data, format=form, dpi=150, metadata={"Date": None} if form == "svg" else None)
    return data.getvalue()


def risk_svg(found: ReleaseComparison) -> str:
    """The same as an element of a page."""
    svg = risk_picture(found, "svg").decode()
    return svg[svg.index("<svg") :]


def _drawn(found: ReleaseComparison) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    shown = [one for one in found.expected if one.expected_correct is not None]
    names = list(dict.fromkeys(one.algorithm for one in shown))
    markers = {name: _MARKERS[i % len(_MARKERS)] for i, name in enumerate(names)}
    for one in shown:
        _mark(axes, one, markers[one.algorithm])
    axes.set_xlabel("records that are expected to be linked rightly, in percent")
    axes.set_ylabel("information loss, L_SSE in percent")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.set_title("risk and loss; the number is k. Private: for the operator alone", fontsize="medium")
    refinements = dict.fromkeys(one.refine for one in shown)
    figure.legend(handles=_legend(markers, list(refinements)), loc="outside right upper", fontsize="small")
    return figure


def _mark(axes: Axes, one: Expected, marker: str) -> None:
    risk = 100 * (one.expected_correct or 0.0)
    axes.plot(risk, one.l_sse, marker, color=_EDGE, markerfacecolor=_fill(one.refine), markersize=7)
    axes.annotate(
        str(one.k), (risk, one.l_sse), textcoords="offset points", xytext=(6, 3), fontsize="x-small", color="0.25"
    )


def _fill(refine: str | float) -> str:
    return _FILLS.get(str(refine), "0.4")


def _legend(markers: dict[str, str], refinements: list[str | float]) -> list[Any]:
    from matplotlib.lines import Line2D

    plain: dict[str, Any] = {"linestyle": "none", "color": _EDGE}
    algorithms = [Line2D([], [], marker=m, markerfacecolor="white", label=name, **plain) for name, m in markers.items()]
    fills = [
        Line2D([], [], marker="s", markerfacecolor=_fill(refine), label=f"refine {refine}", **plain)
        for refine in refinements
    ]
    return [*algorithms, *fills]
