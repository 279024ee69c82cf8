"""Object storage that fails: output and work area in a real bucket, behind a proxy that provokes what networks do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from soak.bucket import FaultyBucket
from soak.case import Case, MissedError
from soak.data import CSV, PLAIN
from soak.kinds import kind
from soak.s3_proxy import Action, Request

_IN_BUCKET = (PLAIN, PLAIN, CSV)


def _bucket(case: Case) -> FaultyBucket:
    if case.bucket is None:
        raise MissedError("there is no bucket")
    return case.bucket


def _for_a_while(case: Case, action: Action, matches: Callable[[Request], bool], share: float, most: int) -> None:
    """From a moment on, so many requests of a kind meet the fault; then the store is well again."""
    _strike(case, lambda: action, matches, share, most)


def _strike(
    case: Case, action: Callable[[], Action], matches: Callable[[Request], bool], share: float, most: int
) -> None:
    bucket = _bucket(case)
    left = [most]

    def fault(request: Request) -> Action | None:
        if left[0] <= 0 or not matches(request) or case.random.random() >= share:
            return None
        left[0] -= 1
        return action()

    case.may_leave_uploads = True
    command = case.start()
    case.moment(command)
    bucket.proxy.fault = fault
    case.did.append(f"up to {most} requests, {100 * share:.0f} % of those that match")
    case.finish(command)
    bucket.proxy.fault = None
    case.did.append(f"{len(bucket.proxy.struck)} of {bucket.proxy.requests} requests struck")
    if not bucket.proxy.struck:
        raise MissedError("no request met the fault")


def _any(_: Request) -> bool:
    return True


def _burst(case: Case) -> tuple[float, int]:
    """How many requests fail: a few, many, or all from now on."""
    return case.random.choice([(0.1, 5), (0.5, 20), (1.0, 4), (1.0, 10_000)])


@kind(configurations=_IN_BUCKET, in_bucket=True)
def bucket_internal_errors(case: Case) -> None:
    """500 InternalError for some requests, or for all from now on."""
    _for_a_while(case, Action(answer=(500, "InternalError")), _any, *_burst(case))


@kind(configurations=_IN_BUCKET, in_bucket=True)
def bucket_slow_down(case: Case) -> None:
    """503 SlowDown for some requests, or for all from now on."""
    _for_a_while(case, Action(answer=(503, "SlowDown")), _any, *_burst(case))


@kind(configurations=_IN_BUCKET, in_bucket=True)
def bucket_resets(case: Case) -> None:
    """Connections reset before the request arrives."""
    _for_a_while(case, Action(resets=True, forwards=False), _any, *_burst(case))


@kind(configurations=_IN_BUCKET, in_bucket=True)
def bucket_lost_answers(case: Case) -> None:
    """Writes are done, but their answers never arrive."""
    _for_a_while(case, Action(resets=True), lambda r: r.is_write, *_burst(case))


@kind(configurations=_IN_BUCKET, in_bucket=True)
def bucket_manifest_answer_lost(case: Case) -> None:
    """The manifest is created, but the answer is lost, once or every time."""
    _at_end(case, Action(resets=True), lambda r: r.method == "PUT" and r.path.endswith("/manifest.json"))


@kind(configurations=_IN_BUCKET, in_bucket=True)
def bucket_manifest_refused(case: Case) -> None:
    """The manifest's creation fails, once or every time."""
    code = case.random.choice([(500, "InternalError"), (503, "SlowDown"), (403, "AccessDenied")])
    _at_end(case, Action(answer=code), lambda r: r.method == "PUT" and r.path.endswith("/manifest.json"))


@kind(configurations=_IN_BUCKET, in_bucket=True)
def bucket_latest_refused(case: Case) -> None:
    """latest.json cannot be written, once or every time."""
    code = case.random.choice([(500, "InternalError"), (412, "PreconditionFailed"), (403, "AccessDenied")])
    _at_end(case, Action(answer=code), lambda r: r.method == "PUT" and r.path.endswith("/latest.json"))


@kind(configurations=_IN_BUCKET, in_bucket=True)
def bucket_part_refused(case: Case) -> None:
    """A part of the release cannot be written, once or every time."""
    code = case.random.choice([(500, "InternalError"), (403, "AccessDenied"), (507, "InsufficientStorage")])
    _at_end(case, Action(answer=code), lambda r: r.is_write and "/release/" in r.path and "/data/" in r.path)


@kind(configurations=_IN_BUCKET, in_bucket=True)
def bucket_deletes_refused(case: Case) -> None:
    """Nothing can be deleted, once or every time."""
    code = case.random.choice([(500, "InternalError"), (403, "AccessDenied")])
    _at_end(case, Action(answer=code), lambda r: r.method == "DELETE" or (r.method == "POST" and not r.path.count(".")))


def _at_end(case: Case, action: Action, matches: Callable[[Request], bool]) -> None:
    """A fault that is there from the start and meets what matches: once, or always."""
    bucket, left = _bucket(case), [case.random.choice([1, 10_000])]

    def fault(request: Request) -> Action | None:
        if left[0] <= 0 or not matches(request):
            return None
        left[0] -= 1
        return action

    case.may_leave_uploads = True
    bucket.proxy.fault = fault
    case.did.append(f"{'once' if left[0] == 1 else 'always'}: {action}")
    case.finish(case.start())
    bucket.proxy.fault = None
    if not bucket.proxy.struck:
        raise MissedError("no request met the fault")


@kind(configurations=_IN_BUCKET, in_bucket=True)
def bucket_truncated_answers(case: Case) -> None:
    """Answers end in the middle of their body."""
    share = case.random.random()
    _for_a_while(case, Action(truncated_to=share), lambda r: r.method == "GET", *_burst(case))


@kind(configurations=_IN_BUCKET, in_bucket=True)
def bucket_stalls_for_seconds(case: Case) -> None:
    """Some requests are answered seconds late."""
    _strike(case, lambda: Action(late=case.random.uniform(1, 25)), _any, 0.2, 12)


@kind(configurations=_IN_BUCKET, in_bucket=True)
def bucket_stalls_for_good(case: Case) -> None:
    """From a moment on no request is ever answered."""
    _for_a_while(case, Action(late=3600, forwards=False), _any, 1.0, 100_000)


@kind(configurations=_IN_BUCKET, in_bucket=True)
def bucket_credentials_expire(case: Case) -> None:
    """403 from a moment on: the credentials are over."""
    code = case.random.choice(["ExpiredToken", "InvalidAccessKeyId", "AccessDenied", "RequestTimeTooSkewed"])
    _for_a_while(case, Action(answer=(403, code)), _any, 1.0, 100_000)


@kind(configurations=_IN_BUCKET, in_bucket=True)
def bucket_upload_lands_late(case: Case) -> None:
    """A part's upload is held back, the run is killed or interrupted meanwhile, and the upload lands after all."""
    bucket = _bucket(case)
    held = threading.Event()

    def fault(request: Request) -> Action | None:
        if held.is_set() or not (request.is_write and "/release/" in request.path and "/data/" in request.path):
            return None
        held.set()
        return Action(held=8)

    case.may_leave_uploads = True
    bucket.proxy.fault = fault
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


@kind(configurations=_IN_BUCKET, in_bucket=True)
def bucket_server_restarts(case: Case) -> None:
    """The store is killed and comes back some seconds later."""
    bucket = _bucket(case)
    case.may_leave_uploads = True
    command = case.start()
    case.moment(command)
    bucket.kill()
    case.pause(0.5, 15)
    bucket.restart()
    case.finish(command)


@kind(configurations=_IN_BUCKET, in_bucket=True)
def bucket_server_gone(case: Case) -> None:
    """The store is killed and is back for the re-run only."""
    bucket = _bucket(case)
    case.may_leave_uploads = True
    command = case.start()
    case.moment(command)
    bucket.kill()
    case.mend = bucket.restart
    case.finish(command)


@kind(configurations=_IN_BUCKET, in_bucket=True)
def bucket_run_killed(case: Case) -> None:
    """Every process killed at once, the output and the work area in a bucket."""
    command = case.start()
    case.moment(command)
    case.kill_all(command)


@kind(configurations=(PLAIN,), in_bucket=True)
def bucket_identical_runs_race(case: Case) -> None:
    """Two identical runs at once, one with slow and lost answers."""
    _bucket(case).proxy.fault = _slow_and_lossy(case)
    case.may_leave_uploads = case.has_rivals = True
    first = case.start()
    case.pause(0, 3)
    second = case.start()
    case.finish(first)
    case.finish(second)
    _bucket(case).proxy.fault = None


def _slow_and_lossy(case: Case) -> Callable[[Request], Action | None]:
    def fault(request: Request) -> Action | None:
        drawn = case.random.random()
        if "/release/" not in request.path or drawn > 0.3:
            return None
        return Action(resets=True) if drawn < 0.1 else Action(late=case.random.uniform(0.1, 3))

    return fault
