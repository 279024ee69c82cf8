"""What must always hold of a series, by name: each is checked where it could break, and stops the run that broke it."""

from __future__ import annotations

from collections.abc import Sequence

from microagg_core.errors import GateError

#: Each invariant and what it says; ``require`` names the one that does not hold.
INVARIANTS = {
    "ledger-counts": "before a night is committed, its counts are those of the ledger's own rows, read again",
    "promise-history": "what a release promises is true of all nights of its series, not of this one alone",
    "erasure-effect": "an erasure closes the units that it announced, and no others; no readable file holds them",
    "output-named": "after a publication the output holds what manifests name, and nothing else",
}


def require(name: str, wrong: Sequence[str]) -> None:
    """Stop where an invariant does not hold; ``wrong`` says why, a clause each.

    Raises:
        GateError: with the invariant's name.

    >>> require("ledger-counts", [])
    >>> require("ledger-counts", ["the rows hold 3 units, and the document 4"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    microagg_core.errors.GateError: invariant ledger-counts does not hold: the rows hold 3 units, ...
    """
    if wrong:
        raise GateError(
            f"invariant {name} does not hold: {'; '.join(wrong)}; what must hold: {INVARIANTS[name]}; keep ledger and "
            "output as they are, and report this"
        )
