"""How far a spec has groups improved: by counted steps, or by the clock."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from microagg_core.spec.model import Model, Number


class TimeBudget(Model):
    """Refinement bounded by the clock, not by steps: another machine gives another release."""

    seconds: Number = Field(gt=0, allow_inf_nan=False, description="seconds for each block")


def _refine_shape(value: Any) -> Any:
    if isinstance(value, TimeBudget | dict) or value in ("off", "fast", "thorough"):
        return value
    raise ValueError("must be 'off', 'fast', 'thorough' or, with reproducible: false, 'seconds:' for each block")


Refine = Annotated[
    Annotated[Literal["off", "fast", "thorough"], Tag("steps")] | Annotated[TimeBudget, Tag("seconds")],
    Discriminator(lambda value: "seconds" if isinstance(value, TimeBudget | dict) else "steps"),
    BeforeValidator(_refine_shape),
]
