"""Choose which of many cases the suite runs; ``pytest --soak`` runs all of them.

The choice is seeded: every run of the suite has the same cases.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import Phase, settings

T = TypeVar("T")

SEED = 20261120
MOST_EXAMPLES = 40
#: Files that take longest, longest first: so that all workers of pytest-xdist, which take whole files, end together.
LONGEST_FIRST = [
    f"tests/{name}.py"
    for name in (
        "functional/test_command_again", "functional/test_routes", "integration/test_prefect",
        "functional/test_command_process", "functional/test_command_compare", "integration/test_workers",
        "functional/test_command_canaries", "integration/test_nights",
        "functional/test_command_nights", "functional/test_command_refuses", "functional/test_command_others",
        "functional/test_readme", "functional/test_least_rights", "functional/test_command_step",
        "integration/test_prefect_embedded", "integration/test_same_bytes", "integration/test_publish_pages",
    )
]  # fmt: skip
_whole = False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run every case, not the suite's seeded share: hours")


def pytest_configure(config: pytest.Config) -> None:
    global _whole
    _whole = bool(config.getoption("--soak"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest files first, and leave tests with the mark ``soak`` out of the suite."""
    rank = {name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.nodeid.partition("::")[0], len(rank)))
    if _whole:
        return
    left_out = [item for item in items if item.get_closest_marker("soak")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("soak")]


def is_whole() -> bool:
    """Tell whether every case was asked for."""
    return _whole


def share(cases: Iterable[T], most: int) -> list[T]:
    """Draw at most so many of the cases, in their order.

    >>> share(range(100), 3) == share(range(100), 3), len(share(range(100), 3)), share("ab", 3)
    (True, 3, ['a', 'b'])
    """
    every = list(cases)
    if _whole or len(every) <= most:
        return every
    return [every[i] for i in sorted(random.Random(SEED).sample(range(len(every)), most))]


def cover(*axes: Sequence[Any], fits: Callable[..., bool] = lambda *_: True) -> list[tuple[Any, ...]]:
    """Choose combinations that fit, such that each value of each axis is in one of them.

    >>> len(cover("abc", [1, 2], [True, False]))
    3
    """
    every = [case for case in itertools.product(*axes) if fits(*case)]
    if _whole:
        return every
    drawn = random.Random(SEED)
    drawn.shuffle(every)
    chosen: list[tuple[Any, ...]] = []
    left = {(axis, repr(value)) for case in every for axis, value in enumerate(case)}
    while left:
        best = max(every, key=lambda case: len(left & {(axis, repr(value)) for axis, value in enumerate(case)}))
        chosen.append(best)
        left -= {(axis, repr(value)) for axis, value in enumerate(best)}
    return chosen


def examples(most: int) -> settings:
    """Bound hypothesis' examples: a few that are always the same in the suite, so many new ones in ``--soak``."""
    if _whole:
        return settings(max_examples=most, deadline=None)
    # Who only wants to know whether a test fails does not wait for the least example.
    phases = [phase for phase in Phase if phase is not Phase.shrink or "MICROAGG_NO_SHRINKING" not in os.environ]
    return settings(max_examples=min(most, MOST_EXAMPLES), deadline=None, derandomize=True, phases=phases)


def each(names: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a quick test for each of many values as one case; the value at which it fails is in what pytest shows.

    As ``pytest.mark.parametrize``, but for tests that use no fixture which a second run would find changed.
    """
    wanted = [name.strip() for name in names.split(",")]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def every(**given: Any) -> None:
            for value in values:
                case = dict(zip(wanted, value if len(wanted) > 1 else (value,), strict=True))
                try:
                    test(**given, **case)
                except BaseException as error:
                    error.add_note(f"with {case}")
                    raise

        left = [p for name, p in inspect.signature(test).parameters.items() if name not in wanted]
        every.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined]
        return every

    return decorate
