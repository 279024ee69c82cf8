"""How long a store is asked again, by a clock that stands still but for the pauses."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from microagg_core.store import failures
from microagg_core.store.failures import ask, impatient

URL = "s3://bucket/x"


def answer(code: str) -> OSError:
    """What s3fs raises for an answer with S3's code."""
    error = OSError(errno.EIO, "provoked")
    error.response = {"Error": {"Code": code}}  # type: ignore[attr-defined]
    return error


class Clock:
    """Time that passes while somebody sleeps, and what happens then."""

    def __init__(self) -> None:
        self.now, self.pauses = 1000.0, list[float]()
        self.at_pause: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        self.at_pause()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(failures, "_clock", lambda: made.now)
    monkeypatch.setattr(failures, "_sleep", made.sleep)
    monkeypatch.setattr(failures, "_hurried_until", 0.0)
    return made


def failing(error: BaseException, times: float) -> Callable[[], str]:
    """A request that fails so often, and then is answered."""
    left = [times]

    def request() -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise error
        return "answered"

    return request


@pytest.mark.parametrize(
    "error",
    [answer("503"), answer("SlowDown"), ConnectionResetError(), TimeoutError(), answer("409")],
)
def test_a_store_that_does_not_answer_is_asked_for_a_minute_and_a_half(error: OSError, clock: Clock) -> None:
    assert ask(failing(error, 12), URL) == "answered"
    assert all(0.1 <= pause <= 5.0 for pause in clock.pauses) and clock.pauses[-1] >= 2.5 > clock.pauses[0]
    clock.pauses.clear()
    with pytest.raises(type(error)):
        ask(failing(error, 1e9), URL)
    assert sum(clock.pauses) == pytest.approx(90.0) and 18 <= len(clock.pauses) < 60


@pytest.mark.parametrize(
    "error",
    [
        answer("AccessDenied"),
        answer("NoSuchBucket"),
        answer("ExpiredToken"),
        FileNotFoundError(),
        ValueError(),
    ],
)
def test_what_does_not_pass_by_itself_is_told_at_once(error: Exception, clock: Clock) -> None:
    with pytest.raises(type(error)):
        ask(failing(error, 1), URL)
    with pytest.raises(ConnectionResetError):
        ask(failing(ConnectionResetError(), 1), "/a/disk")
    assert clock.pauses == []


def test_requests_within_requests_share_one_patience(clock: Clock) -> None:
    with pytest.raises(TimeoutError):
        ask(lambda: ask(failing(TimeoutError(), 1e9), URL), URL)
    assert sum(clock.pauses) == pytest.approx(90.0)
    with impatient(), pytest.raises(TimeoutError):
        ask(failing(TimeoutError(), 1e9), URL)
    assert sum(clock.pauses) == pytest.approx(90.0)


def test_after_an_interruption_nobody_waits(clock: Clock) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    clock.at_pause = interrupt
    with pytest.raises(KeyboardInterrupt):
        ask(failing(TimeoutError(), 1e9), URL)
    with pytest.raises(TimeoutError):  # by whoever puts work away
        ask(failing(TimeoutError(), 1e9), URL)
    assert len(clock.pauses) == 1
    clock.now, clock.at_pause = clock.now + 61, lambda: None
    assert ask(failing(TimeoutError(), 3), URL) == "answered"
