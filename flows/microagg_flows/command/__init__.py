"""The command `microagg` as a process: from before anything is loaded until after all is said."""

from __future__ import annotations

import sys

from microagg_flows.interrupts import end_at_once_when_signalled, leave_in_time


def main() -> None:
    end_at_once_when_signalled()
    from microagg_flows.command.cli import main as command_line

    code = 0
    try:
        command_line()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    leave_in_time(code)
    sys.exit(code)
