"""The workers of one scheduler, and how they do a release's tasks: under a watch, so that no wait is without an end.

A bounded number of tasks is out at a time, and each future is released as soon as its receipt is in: a worker that dies
then makes nobody repeat what is finished. How many tasks are out follows the cluster as it grows and shrinks, and
workers that join are greeted before long.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from distributed import Client, Future, get_worker
from distributed.client import ClosedClientError
from distributed.scheduler import KilledWorker

from microagg_core.blocks.memory import bytes_per_task
from microagg_core.errors import ClusterError, MicroaggError, TransientClusterError, sanitized
from microagg_core.group.headway import Headway, listening
from microagg_core.kernels.tools.threads import PROCESS
from microagg_core.plain import from_plain
from microagg_core.release.surroundings import Surroundings
from microagg_core.software import done_alike, software
from microagg_core.spec.clusters import StartedWorkers
from microagg_core.spec.release import ReleaseSpec
from microagg_flows.clusters import WorkerRecord
from microagg_flows.clusters.handshake import dashboard_link, greet_scheduler, records_of, surroundings_of
from microagg_flows.clusters.scheduler import pause_share
from microagg_flows.clusters.watch import Standstill, Watch, WorkerState
from microagg_flows.progress import Progress, shown

Item = TypeVar("Item")
Result = TypeVar("Result")
T = TypeVar("T")

#: Tasks out at a time, for each worker thread: enough to keep it busy, few enough to lose.
_AHEAD = 3
#: How often to look at the cluster while tasks are out, and how often, where tasks end, whether somebody has come.
_LOOK_SECONDS, _COUNT_SECONDS = 2.0, 0.25
#: How long the scheduler may take to answer, and a receipt, a few hundred bytes, to come.
_ANSWER_SECONDS, _RECEIPT_SECONDS = 20.0, 30.0
#: How often the paused workers of one stage are started anew before that is no cure, and how long this may take:
#: a process starts in seconds, on a busy machine in many.
_RESTARTS, _RESTART_SECONDS = 3, 60
#: How often to look whether workers have come that are asked what they are, and how long the others may take that the
#: spec wants, after the first.
_ARRIVAL_SECONDS, _OTHERS_SECONDS = 0.5, 30.0
#: Where workers report how far long blocks are. One topic for all runs, so that a scheduler which runs for months does
#: not gather topics.
_TOPIC = "microagg-headway"
_LONGEST_WORDS = 80


class Supply:
    """Explain why a pool has no workers; in this base class somebody else starts them."""

    #: What to do where nobody came, as the end of a sentence.
    cure = "start workers, and start the release again"

    def news(self) -> str:
        """Say what is known of workers that are on their way; empty where nothing is."""
        return ""

    def refusal(self) -> str:
        """Say why no worker will come any more; empty where one may."""
        return ""


@dataclass(frozen=True)
class Pool:
    client: Client
    #: Seconds for which there may be no worker.
    no_workers: float
    #: Whether the workers are started from where this process was, and so are what it is.
    own: bool = False
    #: Whether they are this release's alone, and may be restarted where Dask has paused them for good.
    restarts: bool = False
    #: What a spec says of workers that are started for it; None where others start them.
    wanted: StartedWorkers | None = None
    supply: Supply = field(default_factory=Supply)

    @property
    def most_threads(self) -> int:
        """Threads of as many workers as may come; 0 where that is not known."""
        return self.wanted.n_most * self.wanted.threads if self.wanted else 0

    def workers(self) -> list[WorkerState] | None:
        """Ask the scheduler for its workers; None where it does not answer."""
        identity = self._ask("identity", n_workers=-1)
        if identity is None:
            return None
        return [WorkerState.of(address, worker) for address, worker in identity["workers"].items()]

    def addresses(self) -> frozenset[str] | None:
        """Addresses of the workers, which is asked often; None where the scheduler does not answer."""
        threads = self._ask("ncores")
        return None if threads is None else frozenset(threads)

    def _ask(self, question: str, **kwargs: Any) -> Any:
        try:
            ask = getattr(self.client.scheduler, question)
            return self.client.sync(ask, callback_timeout=_ANSWER_SECONDS, **kwargs)  # type: ignore[no-untyped-call]
        except (OSError, TimeoutError, asyncio.CancelledError, AttributeError):
            return None

    def executor(self, spec: ReleaseSpec, progress: Progress) -> DaskExecutor:
        return DaskExecutor(self, spec, progress)

    def records(self, spec: ReleaseSpec) -> list[WorkerRecord]:
        """Ask each what it is, as soon as all have come that the spec wants, or some and a while has passed."""
        if not self.own:
            greet_scheduler(self.client)
        # Where a pool grows with its work, something has to be wanted of it.
        wanted = self.client.submit(abs, -1, pure=False)
        try:
            return records_of(self.client, spec, self._awaited())
        finally:
            wanted.cancel()  # type: ignore[no-untyped-call]

    def surroundings(self, spec: ReleaseSpec, addresses: Sequence[str]) -> dict[str, Surroundings]:
        return surroundings_of(self.client, spec, addresses)

    def _awaited(self) -> list[WorkerState]:
        began = time.monotonic()
        n_wanted = max(1, self.wanted.n_least) if self.wanted else 1
        first = 0.0
        while len(workers := self.workers() or []) < n_wanted:
            now = time.monotonic()
            if not workers:
                self._refuse_to_wait(now - began)
            elif now - (first := first or now) > _OTHERS_SECONDS:
                break
            time.sleep(_ARRIVAL_SECONDS)
        return workers

    def _refuse_to_wait(self, waited: float) -> None:
        if refusal := self.supply.refusal():
            raise ClusterError(f"no worker comes, because {refusal}; mend that, and ask again")
        if waited > self.no_workers:
            news = self.supply.news()
            raise ClusterError(
                f"no worker came within {self.no_workers:.0f} s{f' ({news})' if news else ''}; start workers, or "
                "give them more time (wait, in cluster)"
            )


@dataclass
class _Out:
    function: Callable[[Any], Any]
    what: str
    waiting: Iterator[tuple[int, Any]]
    futures: dict[int, Future[Any]] = field(default_factory=dict)
    finished: SimpleQueue[tuple[int, Future[Any]]] = field(default_factory=SimpleQueue)
    software: dict[str, str] = field(default_factory=software)
    run: str = field(default_factory=lambda: uuid.uuid4().hex[:8])


class DaskExecutor:
    """Do tasks on the workers of a pool, each asked before its first task whether it reaches the spec's places."""

    def __init__(self, pool: Pool, spec: ReleaseSpec, progress: Progress) -> None:
        self.progress = progress
        self._pool, self._client, self._spec = pool, pool.client, spec
        self._pause = pause_share()
        self._greeted: list[str] = []
        self._workers: list[WorkerState] = []
        self._looked = self._counted = 0.0
        if not pool.own:
            greet_scheduler(pool.client)
        self.look_around()
        if link := dashboard_link(pool.client):
            progress.link_dashboard(link)
        self._headways = Headways()

    def look_around(self) -> list[WorkerState] | None:
        """Ask the scheduler for its workers, and greet those that are new; None where it does not answer."""
        self._looked = time.monotonic()
        if self._client.status in ("closing", "closed"):
            raise TransientClusterError(
                "the connection to the Dask scheduler is gone; finished work is kept, so start the release again"
            )
        states = self._pool.workers()
        if states is None:
            return None
        strangers = [w for w in states if w.address not in self._greeted and (w.running or w.paused)]
        # A worker of our own that was started anew is what its predecessor was.
        if strangers and not (self._pool.own and self._greeted):
            for record in records_of(self._client, self._spec, strangers, len(self._greeted)):
                if record.unfit is not None:
                    raise record.unfit
                self._greeted.append(record.address)
        self._workers = states
        return states

    def memory_per_task(self) -> int | None:
        """Compute the bytes that a task can count on for its rows; None where workers have no limit."""
        sizes = [(worker.memory_limit, worker.threads) for worker in self._workers if worker.memory_limit]
        if not self._workers and (wanted := self._pool.wanted):
            sizes = [(wanted.memory_bytes, wanted.threads)]  # they are still to come
        return min((bytes_per_task(limit, self._pause, threads) for limit, threads in sizes), default=None)

    def expect(self, cpu_seconds: float) -> str:
        return f"by {len(self._workers)} workers" if self._workers else "by workers"

    def map(self, function: Callable[[Item], Result], items: Sequence[Item], what: str) -> list[Result]:
        """Apply a function to every item on the workers; results in the items' order.

        Raises:
            MicroaggError: the first that a task raised; a ``ClusterError`` where a task kills its workers, or nothing
                is done any more.
        """
        results: dict[int, Result] = {}
        try:
            with shown(self.progress, what, len(items)) as progress:
                out = _Out(function, what, iter(enumerate(items)))
                self._headways.listen_to(self._client, out.run)
                for number, result in self._completed(out):
                    results[number] = result
                    progress.advance()
        except MicroaggError:
            raise
        except Exception as error:  # the connection may end in the middle of any call
            raise _cluster_trouble(error, what) from None
        return [results[i] for i in range(len(items))]

    def _completed(self, out: _Out) -> Iterator[tuple[int, Any]]:
        watch = Watch(self._pool.no_workers, self._pause)
        restarts = _RESTARTS if self._pool.restarts else 0
        try:
            while self._fill(out):
                for headway in self._headways.read():
                    self.progress.tell(headway)
                try:
                    number, future = out.finished.get(timeout=_LOOK_SECONDS)
                except Empty:
                    restarts -= self._see_to(watch, out.what, restarts)
                    continue
                watch.done()
                self._look_for_others()
                finished = {number: future, **dict(_all_in(out.finished))}
                for number, result in self._results_of(finished, out.what):
                    yield number, result
                    out.futures.pop(number).release()  # type: ignore[no-untyped-call]
        finally:
            with suppress(ClosedClientError):  # where the connection is gone, nothing is held for us
                for future in out.futures.values():
                    future.cancel()  # type: ignore[no-untyped-call]

    def _results_of(self, finished: dict[int, Future[Any]], what: str) -> Iterator[tuple[int, Any]]:
        """Fetch results that are there at once, which takes flow and scheduler a third of one by one."""
        done = {number: future for number, future in finished.items() if future.status == "finished"}
        if done:
            gather = partial(self._client.gather, list(done.values()), asynchronous=True)
            fetched = _result_of(partial(self._client.sync, gather, callback_timeout=_RECEIPT_SECONDS), what, min(done))
            yield from zip(done, fetched, strict=True)
        for number in finished.keys() - done.keys():
            yield number, _result_of(partial(finished[number].result, timeout=_RECEIPT_SECONDS), what, number)

    def _look_for_others(self) -> None:
        """Look for workers that have come, between tasks that end one after the other."""
        now = time.monotonic()
        if now - self._looked > _LOOK_SECONDS:
            self.look_around()
        elif now - max(self._looked, self._counted) > _COUNT_SECONDS:
            self._counted = now
            if self._pool.addresses() != frozenset(worker.address for worker in self._workers):
                self.look_around()

    def _fill(self, out: _Out) -> bool:
        """Hand out tasks while there are any and workers to do them, or that are to come; whether some are out."""
        threads = max(1, self._pool.most_threads, sum(worker.threads for worker in self._workers))
        lacking = _AHEAD * threads - len(out.futures)
        # Many at a time take flow and scheduler half of one by one.
        if lacking >= max(1, threads // 2) and (items := dict(islice(out.waiting, lacking))):
            do = partial(done_alike, partial(do_on_worker, out.function, out.run), wanted=out.software)
            # Tasks of one name are kept by the scheduler until a worker is free: who comes late finds some left.
            keys = [(f"{out.what}-{out.run}", number) for number in items]
            futures = self._client.map(do, list(items.values()), key=keys, pure=False, retries=0)
            for number, future in zip(items, futures, strict=True):
                out.futures[number] = future
                future.add_done_callback(  # type: ignore[no-untyped-call]
                    lambda future, number=number: out.finished.put((number, future))
                )
        return bool(out.futures)

    def _see_to(self, watch: Watch, what: str, restarts: int) -> int:
        """Look why nothing was finished for a moment; return the number of restarts that this took."""
        why = watch.look(self.look_around())
        if why is None:
            return 0
        supply = self._pool.supply
        news = supply.news() if why is Standstill.NO_WORKERS else ""
        if why is Standstill.NO_WORKERS and (refusal := supply.refusal()):
            raise ClusterError(
                f"{what}: no worker comes, because {refusal}; finished work is kept, so mend that, and start the "
                "release again"
            )
        watch.refuse_to_wait(why, what, news, supply.cure)
        if line := watch.worth_a_line(why):
            self.progress.say(f"{what}: {line}{f' ({news})' if news else ''}")
            if why is Standstill.PAUSED and restarts:
                return self._restart_paused(what)
        return 0

    def _restart_paused(self, what: str) -> int:
        """Start paused workers anew: a fresh process holds nothing of what paused it, and its task begins again."""
        paused = [worker.address for worker in self._workers if worker.paused]
        self.progress.say(f"{what}: {len(paused)} workers stay above Dask's memory threshold and are started anew")
        self._client.restart_workers(paused, timeout=_RESTART_SECONDS, raise_for_error=False)
        return 1


def do_on_worker(function: Callable[[Item], Result], run: str, item: Item) -> Result:
    """Do a task of a run on a worker, with its other threads while they are idle; report how far long blocks are."""
    PROCESS.allow(get_worker().state.nthreads)
    with listening(partial(_report, run)):
        return function(item)


def _report(run: str, headway: Headway) -> None:
    with suppress(Exception):  # whether somebody hears of it decides nothing
        get_worker().log_event(_TOPIC, {"run": run, **vars(headway)})


def _all_in(queue: SimpleQueue[T]) -> Iterator[T]:
    with suppress(Empty):
        while True:
            yield queue.get_nowait()


def _result_of(fetch: Callable[[], Any], what: str, number: int) -> Any:
    try:
        # Done, so that only a scheduler or a worker that is stuck can hold its receipt back.
        return fetch()
    except MicroaggError:
        raise
    except KilledWorker:
        raise ClusterError(
            f"{what}, task {number}: every worker that tried it died, most likely for memory; "
            "give each worker more memory or fewer threads, or lower blocks.max_records"
        ) from None
    except (asyncio.CancelledError, OSError, TimeoutError):
        raise TransientClusterError(
            f"the cluster went away during {what}; finished work is kept, so start the release again"
        ) from None
    except Exception as error:
        raise _cluster_trouble(error, what) from None


def _cluster_trouble(error: Exception, what: str) -> MicroaggError:
    """Make an error of ours of one of Dask, whose classes vary from version to version."""
    if type(error).__module__.split(".")[0] in ("distributed", "tornado", "concurrent"):
        return TransientClusterError(
            f"the cluster failed during {what} ({type(error).__name__}); finished work is kept, so start again"
        )
    return sanitized(error, what)


class Headways:
    """Reports of workers on the long blocks of one run after the other, until they are read."""

    def __init__(self) -> None:
        self._run: str | None = None
        self._heard: SimpleQueue[Headway] = SimpleQueue()

    def listen_to(self, client: Client, run: str) -> None:
        if self._run is None:
            client.subscribe_topic(_TOPIC, self.hear)  # type: ignore[no-untyped-call]
        self._run = run

    def hear(self, event: tuple[float, Any]) -> None:
        """Take an event, if it is this run's and what it should be: others may write to the scheduler, too."""
        report = event[1]
        if isinstance(report, dict) and report.get("run") == self._run:
            with suppress(ValueError, KeyError):
                self._heard.put(from_plain(Headway, {**report, "doing": str(report["doing"])[:_LONGEST_WORDS]}))

    def read(self) -> Iterator[Headway]:
        return _all_in(self._heard)
