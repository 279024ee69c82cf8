"""Draw comparisons with matplotlib: loss against k of a bare file, risk against loss of a release."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from microagg_core.compare.bare_file import Comparison
from microagg_core.compare.choice import ReleaseComparison
from microagg_core.compare.trial import Expected
from microagg_core.errors import SpecError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ENDINGS = (".png", ".svg", ".pdf")
_MARKERS = "os^Dvp*hXP<>d8H"
#: By refinement: the darker, the more is done. Readable in grey, as fill says it and no colour does.
_FILLS = {"off": "white", "fast": "0.72", "thorough": "0.15"}
_OTHER_FILL = "0.4"
_EDGE = "0.1"
#: Marks nearer than this part of an axis lie over each other.
_NEAR = 0.02
_SIZE = (8.0, 5.5)
#: Ids of the picture's parts are the same each time.
_SALT = "microagg"


def check_ending(path: Path) -> None:
    """Refuse a picture that cannot be made, before any work is done."""
    if path.suffix.lower() not in _ENDINGS:
        raise SpecError(f"--plot: must end in {', '.join(_ENDINGS)} (got {path.name!r})")


def plot_losses(comparison: Comparison, path: Path) -> None:
    """Draw L_SSE against k, one line an algorithm, and write the picture to ``path``."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    names = list(dict.fromkeys(o.algorithm for o in comparison.outcomes))
    for i, name in enumerate(names):
        mine = sorted((o for o in comparison.outcomes if o.algorithm == name), key=lambda o: o.k)
        axes.plot([o.k for o in mine], [o.l_sse for o in mine], marker=_MARKERS[i % len(_MARKERS)], label=name)
    axes.set_xticks(comparison.ks())
    axes.set_xlabel("k, least records in a group")
    axes.set_ylabel("information loss, L_SSE in percent")
    axes.set_title(f"{comparison.records:,} records, {len(comparison.quasi_identifiers)} quasi-identifiers")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)


def risk_picture(comparison: ReleaseComparison, form: str) -> bytes:
    """Draw the records that are linked rightly against the loss, a mark for each setting, as svg, png or pdf."""
    import matplotlib as mpl

    data = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": _SALT}):
        _drawn(comparison).savefig(data, format=form, dpi=150, metadata={"Date": None} if form == "svg" else None)
    return data.getvalue()


def risk_svg(comparison: ReleaseComparison) -> str:
    svg = risk_picture(comparison, "svg").decode()
    return svg[svg.index("<svg") :]


def _drawn(comparison: ReleaseComparison) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    shown = [one for one in comparison.expected if one.expected_correct is not None]
    names = list(dict.fromkeys(one.algorithm for one in shown))
    markers = {name: _MARKERS[i % len(_MARKERS)] for i, name in enumerate(names)}
    for one in shown:
        risk = _risk(one)
        mine: dict[str, Any] = {
            "color": _EDGE,
            "markerfacecolor": _FILLS.get(str(one.refine), _OTHER_FILL),
            "markersize": 7,
        }
        axes.plot(risk, one.l_sse, markers[one.algorithm], **mine)
    for one in _apart(shown):
        place = (_risk(one), one.l_sse)
        axes.annotate(str(one.k), place, textcoords="offset points", xytext=(6, 3), fontsize="x-small", color="0.25")
    axes.set_xlabel("records that are expected to be linked rightly, in percent")
    axes.set_ylabel("information loss, L_SSE in percent")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.set_title("risk and loss; the number is k. Private: for the operator alone", fontsize="medium")
    refinements = dict.fromkeys(one.refine for one in shown)
    figure.legend(handles=_legend(markers, list(refinements)), loc="outside right upper", fontsize="small")
    return figure


def _risk(one: Expected) -> float:
    return 100 * (one.expected_correct or 0.0)


def _apart(shown: list[Expected]) -> list[Expected]:
    """Pick marks to number: of marks of a k that lie over each other one has the number for all."""
    wide, high = (max(map(of, shown), default=0.0) * _NEAR for of in (_risk, lambda one: one.l_sse))
    apart: list[Expected] = []
    for one in shown:
        others = [other for other in apart if other.k == one.k]
        if all(abs(_risk(one) - _risk(o)) > wide or abs(one.l_sse - o.l_sse) > high for o in others):
            apart.append(one)
    return apart


def _legend(markers: dict[str, str], refinements: list[str | float]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    plain: dict[str, Any] = {"linestyle": "none", "color": _EDGE}
    algorithms = [Line2D([], [], marker=m, markerfacecolor="white", label=name, **plain) for name, m in markers.items()]
    fills = [
        Patch(facecolor=_FILLS.get(str(one), _OTHER_FILL), edgecolor=_EDGE, label=f"refine {one}")
        for one in refinements
    ]
    return [*algorithms, *fills]
