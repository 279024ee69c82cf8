"""What is compiled together, which release needs which of it, and the stamps that say what is compiled."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from microagg_core.group.algorithms import algorithms
from microagg_core.kernels.machine_code.code_cache import code_folders
from microagg_core.software import digest_of

_PACKAGE = Path(__file__).parents[1]

#: Hashes of rows, which every step needs from the survey on.
TABLES = "tables"
#: Which released combinations are nearest to a record, which the measures of risk ask.
_LINKS = "links"
#: The neighbour bound and, for every block, the sums of its losses; the annealing, the factor that proves a bound for
#: pairs, the optimum that it leads to, and prices, which do for k up to 5.
_BOUND, _ANNEALING, _FACTOR, _OPTIMUM, _PRICES = "bound", "annealing", "factor", "optimum", "prices"
#: What protection beyond k needs.
PROTECTION = "protection"
_FACTOR_K, _PRICES_K = (2,), (3, 4, 5)


def needed_parts(algorithm: str, effort: str | float, k: int | None = None) -> tuple[str, ...]:
    """List the parts that a release by this algorithm and effort of refinement runs through, for one k or for any.

    >>> needed_parts("mdav", "fast", 5)
    ('tables', 'mdav', 'bound', 'links', 'annealing')
    >>> needed_parts("mdav", "off", 2)
    ('tables', 'mdav', 'bound', 'links', 'factor')
    """
    parts = [TABLES, *_algorithms_run(algorithm, k), _BOUND, _LINKS]
    searches = algorithm == "search" or not isinstance(effort, str)
    if effort != "off" or algorithm in ("search", "best"):
        parts.append(_ANNEALING)
    if k is None or k in _FACTOR_K:
        parts += [_FACTOR, _OPTIMUM] if effort == "thorough" else [_FACTOR]
    if effort == "thorough" and (k is None or k in _PRICES_K):
        parts.append(_PRICES)
    if searches or _PRICES in parts:  # both search, from MDAV's groups on
        parts.append("mdav")
    return tuple(dict.fromkeys(parts))


def grouping_parts(algorithm: str, effort: str | float, k: int) -> tuple[str, ...]:
    """List those of the parts without which groups would be others; proofs are left out.

    >>> grouping_parts("mdav", "fast", 2)
    ('tables', 'mdav', 'bound', 'links', 'annealing')
    """
    proofs = {_PRICES} if effort == "thorough" or algorithms()[algorithm].certified else {_PRICES, _FACTOR}
    return tuple(part for part in needed_parts(algorithm, effort, k) if part not in proofs)


def _algorithms_run(name: str, k: int | None) -> list[str]:
    if name != "best":
        return [name]
    others = [info for info in algorithms().values() if info.name not in ("best", "search") and not info.each_attribute]
    return [info.name for info in others if k is None or info.min_k <= k <= (info.max_k or k)]


def all_parts() -> tuple[str, ...]:
    """List everything there is to compile."""
    each = [needed_parts(name, "thorough") for name in algorithms() if name != "best"]
    return tuple(dict.fromkeys([*(part for parts in each for part in parts), PROTECTION]))


@cache
def _sources_digest() -> str:
    """Digest the whole package: a change anywhere may have a part call its kernels otherwise."""
    return digest_of([_PACKAGE])[:12]


def _stamp(part: str) -> str:
    return f"{part}-{_sources_digest()}.compiled"


def is_stamped(part: str) -> bool:
    """Say whether a part is compiled, and its code is where this process finds it."""
    return any((folder / _stamp(part)).exists() for folder in code_folders().read)


def stamp(part: str) -> None:
    """Mark a part as compiled and kept, by whoever has just done so.

    Raises:
        OSError: the stamp cannot be written, so the code was not kept either.
    """
    folder = code_folders().write
    if folder is None:
        raise FileNotFoundError("no folder for compiled code can be written")
    # With a byte in it: a full disk makes empty files.
    (folder / _stamp(part)).write_bytes(b"\n")
