"""The pages of a release for those who use its data: what they are called, and what they say."""

from __future__ import annotations

from microagg_core.releases.manifest import Manifest

_README = """# {name}, release {id}

{rows} records. Every combination of values that others may know is shared by at least {k} of them.

`manifest.json` names the files, with their checksums; `microagg verify` compares them.
"""


def public_pages(manifest: Manifest) -> dict[str, bytes]:
    """The pages of a release by name, made from what its manifest says and from nothing else.

    Args:
        manifest: of the release, without its pages: they are named when they are written.
    """
    text = _README.format(name=manifest.name, id=manifest.id, rows=manifest.rows, k=manifest.k)
    return {"README.md": text.encode()}
