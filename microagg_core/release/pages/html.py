"""A document as one page of HTML: no request, no script; whatever stands in it is shown, not run."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from microagg_core.release.pages import document as parts
from microagg_core.release.pages.escaping import visible


def html_page(document: parts.Document) -> bytes:
    """The whole page."""
    return _template().render(page=document).encode()


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("microagg_core.release.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = visible
    environment.filters["kind"] = lambda part: type(part).__name__ if not isinstance(part, str) else "Plain"
    environment.filters["length"] = len
    environment.filters["bar"] = _bar
    return environment.get_template("readme.html")


def _bar(percent: float) -> str:
    """How long a bar is, of a hundred.

    >>> _bar(12.345), _bar(-1.0), _bar(1e9)
    ('12.3', '0.0', '100.0')
    """
    return f"{min(max(percent, 0.0), 100.0):.1f}"
