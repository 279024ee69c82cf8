"""The kinds of fault, one family a module; each is a function that does one thing to a release under way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

from soak.data import CSV, PLAIN, REFINED, Configuration

if TYPE_CHECKING:
    from soak.case import Case

#: How a command may end that meets a fault of a family, beside 0: what the exit codes of the README are for.
CODES: dict[str, frozenset[int]] = {
    "signals": frozenset({6, 130}),
    "memory": frozenset({2, 6}),
    "disks": frozenset({5}),
    "damage": frozenset({5}),
    "inputs": frozenset({3, 5, 7}),
    "races": frozenset({4, 5, 130}),
    "surroundings": frozenset({2, 5, 6}),
    "storage": frozenset({5, 130}),
    "clusters": frozenset({5, 6}),
    "prefect": frozenset({6}),
    "series": frozenset({5, 6, 130}),
}
#: Where finished work may be done again: it was damaged, or its input is another now.
DONE_AGAIN = ("damage", "inputs", "series")
Act = Callable[["Case"], None]
#: Given the case, its command at the moment that was drawn, and what was made before.
Strike = Callable[..., object]


@dataclass(frozen=True)
class Kind:
    name: str
    family: str
    says: str
    act: Act
    #: What may be released while it happens, each as likely as it stands here.
    configurations: tuple[Configuration, ...] = (PLAIN, PLAIN, REFINED, CSV)
    #: True: through Prefect; False: --direct; None: drawn.
    through_prefect: bool | None = None
    #: Input on a disk, output and work area in a bucket behind the faulty proxy.
    in_bucket: bool = False


KINDS: dict[str, Kind] = {}


def enter(name: str, says: str, act: Act, **others: Any) -> None:
    """Enter a function as a kind of the family whose module it is of."""
    if name in KINDS:
        raise ValueError(f"two kinds are called {name}")
    KINDS[name] = Kind(name, act.__module__.rpartition(".")[2], says, act, **others)


def kind(**others: Any) -> Callable[[Act], Act]:
    """Enter a function as a kind of fault under its own name; its first line says what it does."""

    def entered(act: Act) -> Act:
        enter(act.__name__.replace("_", "-"), (act.__doc__ or "").splitlines()[0], act, **others)
        return act

    return entered


def under_way(
    strike: Strike, *among: str, middle: bool = False, before: Callable[[Case], tuple[Any, ...]] | None = None
) -> Act:
    """Make what strikes a run at a moment that is drawn (see `Case.moment`) a kind's act."""

    @wraps(strike)
    def act(case: Case) -> None:
        made = before(case) if before is not None else ()
        command = case.start()
        case.moment(command, *(case.middle() if middle else among))
        strike(case, command, *made)
        case.finish(command)

    return act


def strikes(
    *among: str, middle: bool = False, before: Callable[[Case], tuple[Any, ...]] | None = None, **others: Any
) -> Callable[[Strike], Act]:
    """Enter a function as a kind of fault that strikes a run at a moment that is drawn."""
    return lambda strike: kind(**others)(under_way(strike, *among, middle=middle, before=before))


def all_kinds() -> dict[str, Kind]:
    """List every kind by its name, in the order of the families."""
    for family in CODES:
        import_module(f"soak.kinds.{family}")
    return KINDS
