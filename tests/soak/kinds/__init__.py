"""The kinds of fault, one family a module; each is a function that does one thing to a release under way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from soak.data import CSV, PLAIN, REFINED, Configuration

if TYPE_CHECKING:
    from soak.case import Case

FAMILIES = (
    "signals", "memory", "disks", "damage", "inputs", "races", "surroundings", "storage", "clusters", "prefect",
    "series",
)  # fmt: skip
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


@dataclass(frozen=True)
class Kind:
    """A kind of fault."""

    name: str
    family: str
    says: str
    act: Act
    #: What may be released while it happens, each as likely as it stands here.
    configurations: tuple[Configuration, ...]
    #: True: through Prefect; False: --direct; None: drawn.
    through_prefect: bool | None
    #: Input on a disk, output and work area in a bucket behind the faulty proxy.
    in_bucket: bool
    quick: bool


KINDS: dict[str, Kind] = {}


def kind(
    *,
    configurations: tuple[Configuration, ...] = (PLAIN, PLAIN, REFINED, CSV),
    through_prefect: bool | None = None,
    in_bucket: bool = False,
    quick: bool = False,
) -> Callable[[Act], Act]:
    """Enter a function as a kind of fault under its own name; its first line says what it does."""

    def enter(act: Act) -> Act:
        name = act.__name__.replace("_", "-")
        if name in KINDS:
            raise ValueError(f"two kinds are called {name}")
        family = act.__module__.rpartition(".")[2]
        says = (act.__doc__ or name).splitlines()[0]
        KINDS[name] = Kind(name, family, says, act, configurations, through_prefect, in_bucket, quick)
        return act

    return enter


def all_kinds() -> dict[str, Kind]:
    """Every kind by its name, in the order of the families."""
    for family in FAMILIES:
        import_module(f"soak.kinds.{family}")
    return KINDS
