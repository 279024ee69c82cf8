"""What is asked of a comparison: algorithms and k, and what is left out, said once for all that it is true of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from microagg_core.errors import SpecError
from microagg_core.group.algorithms import AlgorithmInfo, algorithms


def chosen_algorithms(names: Sequence[str]) -> list[AlgorithmInfo]:
    """The algorithms of these names; all, where there are none.

    Raises:
        SpecError: there is no such algorithm.

    >>> [info.name for info in chosen_algorithms(["mdav", "md"])]
    ['mdav', 'md']
    """
    registry = algorithms()
    unknown = [name for name in names if name not in registry]
    if unknown:
        raise SpecError(f"--algorithms: must be among {', '.join(registry)} (got {unknown[0]!r})")
    return [registry[name] for name in dict.fromkeys(names)] if names else list(registry.values())


def refuse_small_k(ks: Iterable[int]) -> None:
    """Stop for a k that hides nobody.

    Raises:
        SpecError: naming it.
    """
    for k in ks:
        if k < 2:
            raise SpecError(f"--k: must be at least 2 (got {k})")


def said_once(left_out: Iterable[tuple[str, int, str]]) -> tuple[str, ...]:
    """Names, k and reasons in words, a line for all k of a name and a reason.

    >>> said_once([("md", 3, "too slow"), ("mst", 3, "too slow"), ("md", 5, "too slow")])
    ('md at k=3, 5: too slow', 'mst at k=3: too slow')
    """
    lines: dict[tuple[str, str], list[int]] = {}
    for name, k, reason in left_out:
        lines.setdefault((name, reason), []).append(k)
    return tuple(f"{name} at k={', '.join(map(str, ks))}: {reason}" for (name, reason), ks in lines.items())
