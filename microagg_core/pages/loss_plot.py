"""Loss against k, as a picture."""

from __future__ import annotations

from pathlib import Path

from microagg_core.compare.compare import Comparison
from microagg_core.errors import SpecError

_ENDINGS = (".png", ".svg", ".pdf")


def check_ending(path: Path) -> None:
    """Refuse a picture that cannot be made, before any work is done.

    Raises:
        SpecError: not the name of a PNG, SVG or PDF file.
    """
    if path.suffix.lower() not in _ENDINGS:
        raise SpecError(f"--plot: must end in {', '.join(_ENDINGS)} (got {path.name!r})")


def plot_losses(comparison: Comparison, path: Path) -> None:
    """Draw L_SSE against k, one line an algorithm, and write the picture to ``path``."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    names = list(dict.fromkeys(o.algorithm for o in comparison.outcomes))
    markers = "os^Dvp*hX<>P"
    for i, name in enumerate(names):
        mine = sorted((o for o in comparison.outcomes if o.algorithm == name), key=lambda o: o.k)
        axes.plot([o.k for o in mine], [o.l_sse for o in mine], marker=markers[i % len(markers)], label=name)
    axes.set_xticks(comparison.ks())
    axes.set_xlabel("k, least records in a group")
    axes.set_ylabel("information loss, L_SSE in percent")
    axes.set_title(f"{comparison.records:,} records, {len(comparison.quasi_identifiers)} quasi-identifiers")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)
