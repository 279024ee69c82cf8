"""``microagg step``: the flow's half of a release, or one task of it."""

from __future__ import annotations

import json

from microagg_core.errors import SpecError
from microagg_core.plain import to_plain
from microagg_flows.command.telling import told_progress
from microagg_flows.releasing import Order
from microagg_flows.step_by_step.going_on import go_on
from microagg_flows.step_by_step.one_task import do_task


def step_release(
    name: str,
    number: int | None,
    run: str | None,
    order: Order,
    as_json: bool,
    quiet: bool,
) -> str:
    """Do what was asked for; what to print of it.

    Raises:
        SpecError: the options do not go together.
        MicroaggError: what the step raises.
    """
    progress = told_progress(quiet)
    if number is None:
        standing = go_on(name, order, run, progress)
        return json.dumps(to_plain(standing), indent=1) if as_json else standing.line()
    if run is None:
        raise SpecError("--run: is needed with --number; microagg step report, without --number, prints the run's key")
    if order.id is not None or order.replace:
        raise SpecError("--id, --replace: say which release is begun, and are not for a task; leave them out")
    receipt = do_task(name, number, run, order.spec, progress, order.settings)
    return json.dumps({"run": run, "step": name, "number": number, "rows": receipt.rows}, indent=1) if as_json else ""
