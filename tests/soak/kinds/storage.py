"""Object storage that fails: output and work area in a real bucket, behind a proxy that provokes what networks do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from servers.proxies import Action, Request
from soak.case import Case, MissedError
from soak.command import Command
from soak.data import CSV, PLAIN
from soak.kinds import enter, kind, strikes

_IN_BUCKET: dict[str, Any] = {"configurations": (PLAIN, PLAIN, CSV), "in_bucket": True}
Matches = Callable[[Request], bool]


def _strike(
    case: Case, action: Callable[[], Action], matches: Matches, share: float, most: int, *, at_once: bool = False
) -> None:
    """Have so many requests of a kind meet a fault, from a moment on or at once; then the store is well again."""
    proxy, left = case.bucket.proxy, [most]

    def fault(request: Request) -> Action | None:
        if left[0] <= 0 or not matches(request) or case.random.random() >= share:
            return None
        left[0] -= 1
        return action()

    case.may_leave_uploads = True
    if at_once:
        proxy.fault = fault
    command = case.start()
    if not at_once:
        case.moment(command)
        proxy.fault = fault
    case.finish(command)
    proxy.fault = None
    case.did.append(f"{len(proxy.struck)} of {proxy.requests} requests struck, of at most {most}")
    if not proxy.struck:
        raise MissedError("no request met the fault")


def _any(_: Request) -> bool:
    return True


def _bursts(case: Case, action: Action, matches: Matches = _any) -> None:
    """Have a few requests fail, many, or all from now on."""
    share, most = case.random.choice([(0.1, 5), (0.5, 20), (1.0, 4), (1.0, 10_000)])
    _strike(case, lambda: action, matches, share, most)


for _name, _says, _act in (
    (
        "internal-errors",
        "500 InternalError for some requests, or for all from now on.",
        lambda case: _bursts(case, Action(answer=(500, "InternalError"))),
    ),
    (
        "slow-down",
        "503 SlowDown for some requests, or for all from now on.",
        lambda case: _bursts(case, Action(answer=(503, "SlowDown"))),
    ),
    (
        "resets",
        "Connections reset before the request arrives.",
        lambda case: _bursts(case, Action(resets=True, forwards=False)),
    ),
    (
        "lost-answers",
        "Writes are done, but their answers never arrive.",
        lambda case: _bursts(case, Action(resets=True), lambda r: r.is_write),
    ),
    (
        "truncated-answers",
        "Answers end in the middle of their body.",
        lambda case: _bursts(case, Action(truncated_to=case.random.random()), lambda r: r.method == "GET"),
    ),
    (
        "stalls-for-seconds",
        "Some requests are answered seconds late.",
        lambda case: _strike(case, lambda: Action(late=case.random.uniform(1, 25)), _any, 0.2, 12),
    ),
    (
        "stalls-for-good",
        "From a moment on no request is ever answered.",
        lambda case: _strike(case, lambda: Action(late=3600, forwards=False), _any, 1.0, 100_000),
    ),
):
    enter(f"bucket-{_name}", _says, _act, **_IN_BUCKET)


@kind(**_IN_BUCKET)
def bucket_credentials_expire(case: Case) -> None:
    """403 from a moment on: the credentials are over."""
    code = case.random.choice(["ExpiredToken", "InvalidAccessKeyId", "AccessDenied", "RequestTimeTooSkewed"])
    _strike(case, lambda: Action(answer=(403, code)), _any, 1.0, 100_000)


def _refused(case: Case, matches: Matches, *actions: Action | tuple[int, str]) -> None:
    """Have requests that match fail from the start: once, or always."""
    drawn = case.random.choice(actions)
    action = drawn if isinstance(drawn, Action) else Action(answer=drawn)
    case.did.append(str(action))
    _strike(case, lambda: action, matches, 1.0, case.random.choice([1, 10_000]), at_once=True)


def _puts(ending: str) -> Matches:
    return lambda r: r.method == "PUT" and r.path.endswith(ending)


def _is_part(request: Request) -> bool:
    return request.is_write and "/release/" in request.path and "/data/" in request.path


def _is_removal(request: Request) -> bool:
    return request.method == "DELETE" or (request.method == "POST" and "." not in request.path)


_ERROR, _BUSY, _DENIED = (500, "InternalError"), (503, "SlowDown"), (403, "AccessDenied")
_NO_ROOM, _OTHER = (507, "InsufficientStorage"), (412, "PreconditionFailed")
for _name, _says, _matches, _actions in (
    ("manifest-answer-lost", "The manifest is created, but the answer is lost, once or every time.",
     _puts("/manifest.json"), (Action(resets=True),)),
    ("manifest-refused", "The manifest's creation fails, once or every time.",
     _puts("/manifest.json"), (_ERROR, _BUSY, _DENIED)),
    ("latest-refused", "latest.json cannot be written, once or every time.",
     _puts("/latest.json"), (_ERROR, _OTHER, _DENIED)),
    ("part-refused", "A part of the release cannot be written, once or every time.",
     _is_part, (_ERROR, _DENIED, _NO_ROOM)),
    ("deletes-refused", "Nothing can be deleted, once or every time.", _is_removal, (_ERROR, _DENIED)),
):  # fmt: skip
    enter(
        f"bucket-{_name}",
        _says,
        lambda case, matches=_matches, actions=_actions: _refused(case, matches, *actions),
        **_IN_BUCKET,
    )


@kind(**_IN_BUCKET)
def bucket_upload_lands_late(case: Case) -> None:
    """A part's upload is held back, the run is killed or interrupted meanwhile, and the upload lands after all."""
    held = threading.Event()

    def fault(request: Request) -> Action | None:
        if held.is_set() or not _is_part(request):
            return None
        held.set()
        return Action(late=8)

    case.may_leave_uploads = True
    case.bucket.proxy.fault = fault
    command = case.start()
    while not held.wait(0.2):
        if command.is_over():
            raise MissedError("the run ended before an upload was held")
    number = case.random.choice([2, 9, 15])
    command.send(number)
    case.did.append(f"signal {number} while an upload is under way")
    case.finish(command)
    if case.random.random() < 0.5:
        case.finish(case.start())  # the same command at once, while the upload is still on its way
    time.sleep(8)


@strikes(**_IN_BUCKET)
def bucket_server_restarts(case: Case, _: Command) -> None:
    """The store is killed and comes back some seconds later."""
    case.may_leave_uploads = True
    case.bucket.kill()
    case.pause(0.5, 15)
    case.bucket.restart()


@strikes(**_IN_BUCKET)
def bucket_server_gone(case: Case, _: Command) -> None:
    """The store is killed and is back for the re-run only."""
    case.may_leave_uploads = True
    case.bucket.kill()
    case.mend = case.bucket.restart


@strikes(**_IN_BUCKET)
def bucket_run_killed(case: Case, command: Command) -> None:
    """Every process killed at once, the output and the work area in a bucket."""
    case.kill_all(command)


@kind(configurations=(PLAIN,), in_bucket=True)
def bucket_identical_runs_race(case: Case) -> None:
    """Two identical runs at once, one with slow and lost answers."""

    def fault(request: Request) -> Action | None:
        drawn = case.random.random()
        if "/release/" not in request.path or drawn > 0.3:
            return None
        return Action(resets=True) if drawn < 0.1 else Action(late=case.random.uniform(0.1, 3))

    case.bucket.proxy.fault = fault
    case.may_leave_uploads = case.has_rivals = True
    first = case.start()
    case.pause(0, 3)
    second = case.start()
    case.finish(first)
    case.finish(second)
    case.bucket.proxy.fault = None
