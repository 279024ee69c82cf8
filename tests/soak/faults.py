"""Faults by the hundred: a seeded campaign against the real command.

    python tests/soak/faults.py --minutes 60
    python tests/soak/faults.py --list
    python tests/soak/faults.py --seed 7 --kind worker-killed --cases 1

Exit code 0 where nothing went wrong, 1 where something did. See the README beside this file.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from soak.campaign import WRONG, Campaign, table
from soak.data import CONFIGURATIONS
from soak.kinds import Kind, all_kinds

ROWS = 300_000


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A seeded campaign of faults against microagg run.")
    parser.add_argument("--minutes", type=float, default=30.0, help="no case begins later than that")
    parser.add_argument("--cases", type=int, help="at most so many cases")
    parser.add_argument("--seed", type=int, default=0, help="decides kinds' order, moments and victims")
    parser.add_argument("--rows", type=int, default=ROWS, help="people in the input")
    parser.add_argument("--kind", action="append", default=[], help="only this kind, or family; may be repeated")
    names = [configuration.name for configuration in CONFIGURATIONS]
    parser.add_argument("--configuration", choices=names, help="release only this; default: whatever each kind draws")
    parser.add_argument("--list", action="store_true", help="list the kinds and stop")
    parser.add_argument("--json", type=Path, help="also write the record here, after every case")
    parser.add_argument("--folder", type=Path, help="where to work; compiled kernels and wrong cases stay there")
    parser.add_argument("--kernels", type=Path, help="compiled kernels to begin with; default: those in --folder")
    return parser.parse_args()


def chosen(names: list[str], configuration: str | None) -> list[Kind]:
    """Find the kinds asked for, by name or family; all where none is named. Without those that never release that."""
    kinds = all_kinds()
    unknown = [name for name in names if name not in kinds and name not in {k.family for k in kinds.values()}]
    if unknown:
        sys.exit(f"no kind or family is called {', '.join(unknown)}; see --list")
    asked_for = [k for k in kinds.values() if not names or k.name in names or k.family in names]
    if configuration is None:
        return asked_for
    only = {k.name: tuple(c for c in k.configurations if c.name == configuration) for k in asked_for}
    return [replace(k, configurations=only[k.name]) for k in asked_for if only[k.name]]


def main() -> int:
    asked = arguments()
    kinds = chosen(asked.kind, asked.configuration)
    if asked.list:
        print("\n".join(f"{k.family:<13} {k.name:<36} {k.says}" for k in kinds))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))  # what was started is ended, and disks are unmounted
    folder = (asked.folder or Path(tempfile.mkdtemp(prefix="microagg-soak-"))).resolve()
    with ExitStack() as undo:
        campaign = Campaign(folder, (asked.kernels or folder / "kernels").resolve(), asked.rows, undo)
        for verdict in campaign.run(kinds, asked.seed, asked.minutes, asked.cases):
            print(verdict.line(), flush=True)
            for wrong in verdict.wrongs:
                print(f"    WRONG: {wrong}", flush=True)
            if verdict.outcome == WRONG:
                print(f"    {_again(asked, verdict.kind, verdict.seed)}    # its files: {verdict.folder}", flush=True)
            if asked.json:
                cases = [asdict(verdict) for verdict in campaign.verdicts]
                asked.json.write_text(json.dumps({"rows": asked.rows, "seed": asked.seed, "cases": cases}, indent=1))
    print(table(campaign.verdicts))
    n_wrong = sum(v.outcome == WRONG for v in campaign.verdicts)
    if not n_wrong and not asked.folder:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if n_wrong else 0


def _again(asked: argparse.Namespace, kind: str, seed: int) -> str:
    others = f" --rows {asked.rows}" if asked.rows != ROWS else ""
    others += f" --configuration {asked.configuration}" if asked.configuration else ""
    return f"python tests/soak/faults.py --seed {seed} --kind {kind} --cases 1{others}"


if __name__ == "__main__":
    sys.exit(main())
