"""Series of nights in which a command dies: what the next one makes of it, by all files that can be read.

Each kind is a walk of ``seasons/walk.py``, by the real command under watch; ``last=0`` is a moment that is drawn.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import Any

import httpx

from seasons import walk
from seasons.population import Population
from seasons.walk import NotDeadError, Walk
from soak.case import Case, MissedError
from soak.command import Ended
from soak.data import PLAIN
from soak.kinds import enter, kind
from soak.kinds.prefect import Named

_ALONE: dict[str, Any] = {"configurations": (PLAIN,), "through_prefect": False}
_GHOSTS = {"mode": "atoms", "leavers": "ghosts"}
_SERIES: tuple[dict[str, Any], ...] = (
    _GHOSTS, _GHOSTS, {"mode": "atoms", "leavers": "withhold"}, {"mode": "atoms", "leavers": "decoys"},
    {"mode": "rotation", "leavers": "ghosts", "nights": 4}, {"mode": "disjoint"},
)  # fmt: skip
#: What a run says shortly before it writes to ledger and output.
_PUBLISHES = r"^(?:traces: |validate |upload: )"


@dataclass
class _Nights:
    """The commands of a walk, under watch; how long each took decides when the next of its name dies."""

    case: Case
    seconds: dict[str, float] = field(default_factory=dict)

    def call(self, arguments: tuple[str, ...]) -> walk.Ended:
        """Call a command that nothing disturbs."""
        ended = self.case.finish(self.case.start(arguments=arguments))
        self.seconds[arguments[0]] = ended.seconds
        return _as_walked(ended)

    def kill(self, arguments: tuple[str, ...]) -> walk.Ended:
        """Call a command that is killed, or interrupted, at a moment that is drawn."""
        case, draw = self.case, self.case.random
        command = case.start(arguments=tuple(word for word in arguments if word != "-q"))
        if arguments[0] == "run" and draw.random() < 0.6:
            command.wait_for(_PUBLISHES)
            case.pause(0, 1.0)
        else:
            most = self.seconds.get(arguments[0], 5.0)
            case.pause(0.3 * most, most)
        if command.is_over():
            return _as_walked(case.finish(command))
        number = draw.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        if number == signal.SIGKILL:
            case.kill_all(command)
        else:
            command.send(number)
        case.did.append(f"{number.name} to {arguments[0]}")
        ended = case.finish(command)
        return walk.Ended(arguments, ended.code if ended.code == 0 else -number, ended.out, ended.err)


def _as_walked(ended: Ended) -> walk.Ended:
    return walk.Ended(ended.arguments, ended.code, ended.out, ended.err)


def _walk(case: Case, script: str, series: dict[str, Any] | None = None) -> None:
    """Walk a series in the case's folder; what dies and does not is a miss."""
    case.reader.stop()  # earlier nights are withdrawn on purpose: the walk reads everything after each command
    case.has_rivals = case.may_leave_uploads = True
    nights = _Nights(case)
    people = Population(case.random.choice([150, 600, 1500]), case.random.randrange(2**31), is_real=True)
    series = dict(case.random.choice(_SERIES) if series is None else series)
    way = Walk(case.site.folder, people, series, caller=nights.call, killer=nights.kill)
    case.did.append(" ".join(str(value) for value in series.values()))
    case.look_at_end = lambda: way.wrong
    for sentence in script.split(";"):
        try:
            way.say(sentence)
        except NotDeadError as lived:
            if lived.ended.code != 0:
                way.wrong.append(str(lived))
            way.walk("end")
            raise MissedError(f"{sentence.split()[0]} was over before it was struck") from None
        except walk.WrongError as error:
            way.wrong.append(f"{sentence}: {error}")
            return


_SCRIPTS = {
    "night-dies-then-the-next": (
        "A night is killed, and never started again: the next one comes, and somebody is erased.",
        "night; die last=0; night come=30 leave=5 move=9; forget 1; night come=20; end",
    ),
    "night-dies-and-again": (
        "A night is killed, and started again.",
        "night; night come=20; die last=0; run; night come=20 leave=3; end",
    ),
    "first-night-dies": (
        "The first night of a series is killed, and the next one is the first.",
        "die last=0; night come=20; night come=20 leave=3; end",
    ),
    "night-dies-then-clean": (
        "A night is killed, and what it left is cleaned away.",
        "night; die last=0; clean; night come=20; end",
    ),
    "replacement-dies": (
        "A night that is to replace a published one is killed; the next one comes.",
        "night; night come=20; replacement_dies; night come=20 leave=3; forget 1; end",
    ),
    "erasure-dies": (
        "An erasure is killed, a night comes or is refused, and the erasure is finished.",
        "night; night come=20 leave=3; forget 2 last=0; night_or_refuse; finish same; night come=20; end",
    ),
    "night-dies-then-an-erasure": (
        "A night is killed, and somebody is erased who may be in what it left.",
        "night; die last=0 come=0; forget 2; night come=20; end",
    ),
    "backfill-dies": (
        "A backfill is killed; the same command goes on, and the next night comes.",
        "night; backfill 3 last=0; backfill_again 3; night come=20; end",
    ),
    "rebuild-dies": (
        "A rebuilding of the ledger is killed; the same command goes on, and the next night comes.",
        "night; night come=20; rebuild generations/00000.json last=0; night come=20 leave=3; forget 1; end",
    ),
    "signature-dies": (
        "A signing is killed, and signed again.",
        "night; sign last=0; night come=20; end",
    ),
    "signed-night-dies": (
        "A night that signs is killed; the next one is signed, and the erasure's release too.",
        "signed; night; die last=0; night come=20; verify_signature; forget 1; verify_signature; end",
    ),
}
for _name, (_says, _script) in _SCRIPTS.items():
    enter(_name, _says, lambda case, script=_script: _walk(case, script), **_ALONE)


@kind(**_ALONE)
def deployment_dies(case: Case) -> None:
    """A deployment of a series is killed, and done again; nights go on beside it."""
    server, nights = Named(case), _Nights(case)
    _walk(case, "night; night come=20; end", _GHOSTS)
    (case.site.folder / "specs").mkdir()
    (case.site.folder / "specs" / "people.yaml").write_text((case.site.folder / "release.yaml").read_text())
    httpx.post(f"{server.url}/work_pools/", json={"name": "microagg", "type": "process"}).raise_for_status()
    nights.seconds["deploy"] = 6.0
    call = ("deploy", str(case.site.folder / "specs"))
    if nights.kill(call).code >= 0:
        raise MissedError("the deployment was over before it was struck")
    if (ended := nights.call(call)).code != 0:
        case.wrongs.append(f"deployed again: exit {ended.code}: {ended.sentence()}")
    names = [found["name"] for found in httpx.post(f"{server.url}/deployments/filter", json={}).json()]
    if sorted(names) != ["people", "people"]:  # the release's and the one that cleans
        case.wrongs.append(f"deployments are {sorted(names)}")
