"""The command `microagg` as a process: from before anything is loaded until after all is said."""

from __future__ import annotations

import gc
import sys

from microagg_flows.interrupts import end_at_once_when_signalled, leave_in_time


def main() -> None:
    # By default Python looks through all objects again and again while 1,300 modules are loaded: 0.2 s of each start.
    gc.set_threshold(50_000)
    end_at_once_when_signalled()
    from microagg_flows.command.cli import main as command_line

    code = 0
    try:
        command_line()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    leave_in_time(code)
    sys.exit(code)
