"""A series in the spec: what releases of one name promise together, and what that costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from microagg_core.data.places import Lasting, LocalPath
from microagg_core.model import Model, Problem, Whole

#: Units as a number, or as a multiple of k.
UNTIL_PATTERN = r"^[1-9][0-9]{0,8}k$"

SeriesMode: TypeAlias = Literal["disjoint", "atoms", "rotation", "independent"]
Guarantee: TypeAlias = Literal["trace", "trace+changes"]
Leavers: TypeAlias = Literal["withhold", "ghosts", "decoys"]

#: The modes in which a unit is released more than once, and protected.
_CARRYING = ("atoms", "rotation")
_NOBODY_TWICE = "is for atoms and rotation; a disjoint series releases nobody twice"
_NO_PROMISE = "is for the other modes; independent releases promise nothing together"
_FOR_ROTATION, _FOR_INDEPENDENT = "is for mode: rotation alone", "is for mode: independent alone"
#: For each mode the fields that it has no use for, and why.
_USELESS: dict[SeriesMode, dict[str, str]] = {
    "disjoint": {
        "guarantee": _NOBODY_TWICE,
        "leavers": _NOBODY_TWICE,
        "nights": _FOR_ROTATION,
        "acknowledge": _FOR_INDEPENDENT,
    },
    "atoms": {"nights": _FOR_ROTATION, "acknowledge": _FOR_INDEPENDENT},
    "rotation": {"acknowledge": _FOR_INDEPENDENT},
    "independent": {"guarantee": _NO_PROMISE, "leavers": _NO_PROMISE, "hold": _NO_PROMISE, "nights": _FOR_ROTATION},
}
#: What may be said all the same, as it is so without a word.
_HARMLESS = {"disjoint": "trace"}


def _until_shape(value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not is_number and not (isinstance(value, str) and re.fullmatch(UNTIL_PATTERN, value)):
        raise ValueError("must be a number of units, or a multiple of k such as 20k")
    return value


Until = Annotated[
    Annotated[Whole, Field(ge=1), Tag("units")] | Annotated[str, Field(pattern=UNTIL_PATTERN), Tag("times")],
    Discriminator(lambda value: "times" if isinstance(value, str) else "units"),
    BeforeValidator(_until_shape),
]


class Hold(Model):
    """How long arrivals wait for company: the more come together, the less their means differ from their values."""

    until: Until = Field(default="20k", description="units that a block of arrivals waits for; 20k is 20 times k")
    days: Whole = Field(
        default=7, ge=1, description="days after which who waits is released with k units, if its block has them"
    )

    def until_units(self, k: int) -> int:
        """Units that a block of arrivals waits for; None where arrivals do not wait.

        >>> Hold(until="20k").until_units(5), Hold(until=30).until_units(5)
        (100, 30)
        """
        return int(self.until.removesuffix("k")) * k if isinstance(self.until, str) else self.until


class Series(Model):
    """Releases of one name about mostly the same units, and what they promise together."""

    mode: SeriesMode = Field(
        description="disjoint: a unit is released once; atoms: groups stay together for ever; rotation: atoms for a "
        "number of nights, then never again; independent: no promise, each night is grouped afresh"
    )
    guarantee: Guarantee | None = Field(
        default=None,
        description="trace: k units share every history; trace+changes: also, none or k of a class change in a column; "
        "default: trace, and none where independent",
    )
    leavers: Leavers | None = Field(
        default=None,
        description="what becomes of the atom of a unit that is gone: withhold (until it is whole again), ghosts (the "
        "unit's row is released as it was last, with all of its class) or decoys (others vanish with it); default, "
        "with atoms and rotation: withhold",
    )
    hold: Hold | None = Field(default=None, description="arrivals wait for company; default: they go with k units")
    nights: Whole | None = Field(default=None, ge=1, description="rotation only: nights for which an atom is released")
    ledger: Lasting | None = Field(
        default=None, description="a private place for the series' memory; default: series/<name> in the work area"
    )
    key_file: LocalPath | None = Field(
        default=None,
        description="file that holds the series' secret key and that its owner alone can read; default: the "
        "environment's MICROAGG_SERIES_KEY",
    )
    acknowledge: Literal["overlapping_releases"] | None = Field(
        default=None, description="independent only: that releases of the same units undo each other's protection"
    )

    @model_validator(mode="before")
    @classmethod
    def _with_defaults_of_mode(cls, value: Any) -> Any:
        """Fill in what is usual where the mode has a use for it; a ledger may be written as its URL alone."""
        if not isinstance(value, dict):
            return value
        usual: dict[str, Any] = {} if value.get("mode") == "independent" else {"guarantee": "trace"}
        if value.get("mode") in _CARRYING:
            usual["leavers"] = "withhold"
        whole = {**value, **{name: word for name, word in usual.items() if value.get(name) is None}}
        return {**whole, "ledger": {"url": whole["ledger"]}} if isinstance(whole.get("ledger"), str) else whole

    @classmethod
    def cross_check(cls, parts: Mapping[str, Any]) -> Iterator[Problem]:
        if "mode" not in parts:
            return
        mode = parts["mode"]
        if mode == "rotation" and parts.get("nights", 0) is None:
            yield ("mode",), "rotation needs nights: for how many an atom is released before it vanishes"
        if mode == "independent" and parts.get("acknowledge", "") is None:
            yield (
                ("mode",),
                "independent releases of the same units undo each other's protection; write "
                "acknowledge: overlapping_releases if that is meant, or take another mode",
            )
        yield from (
            ((name,), why) for name, why in _USELESS[mode].items() if parts.get(name) not in (None, _HARMLESS.get(mode))
        )

    def until_units(self, k: int) -> int | None:
        """Units that a block of arrivals waits for; None where arrivals do not wait.

        >>> Series(mode="atoms", hold={"until": "20k"}).until_units(5), Series(mode="atoms").until_units(5)
        (100, None)
        """
        return None if self.hold is None else self.hold.until_units(k)

    @property
    def carries(self) -> bool:
        """Tell whether a unit is released night after night with the values of its first."""
        return self.mode in _CARRYING
