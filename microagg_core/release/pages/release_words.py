"""What several pages say of a release alike: its title, its address, how its columns are called."""

from __future__ import annotations

from microagg_core.release.manifest import ColumnEntry, Manifest
from microagg_core.release.pages.escaping import visible
from microagg_core.spec.about import About, ColumnAbout


def about(manifest: Manifest) -> About:
    """What its publisher says; nothing where he says nothing."""
    return manifest.about or About()


def title(manifest: Manifest) -> str:
    """What the release is called."""
    return about(manifest).title or visible(manifest.name)


def address(manifest: Manifest) -> str | None:
    """Where receivers find the release's own folder, if they were told."""
    url = about(manifest).url
    return f"{url}/{manifest.id}/{manifest.revision}" if url else None


def said_of(manifest: Manifest, column: ColumnEntry) -> ColumnAbout:
    """What its publisher says of a column."""
    return about(manifest).columns.get(column.name) or ColumnAbout()


def in_role(manifest: Manifest, role: str) -> tuple[ColumnEntry, ...]:
    """The columns of a role, in the order of the release."""
    return tuple(column for column in manifest.columns if column.role == role)


def role_words(manifest: Manifest, column: ColumnEntry) -> str:
    """What became of a column, in few words."""
    if column.role == "blocking":
        return {"merge": "kept, small ones merged", "suppress": "kept, small ones withheld"}.get(
            manifest.undersized, "kept"
        )
    return "mean of its group" if column.role == "quasi_identifier" else "as it came"


def units_word(manifest: Manifest) -> str:
    """What k counts: records, or the people or firms that they are about."""
    return "records" if manifest.unit == "row" else "people or firms"


def year(manifest: Manifest) -> str:
    """The year in which it was made."""
    return manifest.created[:4]


def summary(manifest: Manifest) -> str:
    """What the release is, in one sentence, for catalogues in which its publisher says nothing."""
    return (
        f"{manifest.rows:,} records in {len(manifest.columns)} columns, microaggregated: every combination of the "
        f"columns that are known from elsewhere is shared by at least {manifest.k} {units_word(manifest)}."
    )


def size_words(n_bytes: int) -> str:
    """A size as file managers show it.

    >>> size_words(2048), size_words(123_456_789_000)
    ('2.0 kB', '123.5 GB')
    """
    size, units = float(n_bytes), ["bytes", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.0f} {units[0]}" if units[0] == "bytes" else f"{size:,.1f} {units[0]}"
