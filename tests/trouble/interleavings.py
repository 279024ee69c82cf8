"""Every interleaving of programs that share a store, with faults: the programs' own code over a store that is a value.

A program is any function that talks to a :class:`Store` and depends on nothing else: what it does next is then decided
by the answers that it had so far. So it is run anew with those answers, up to its next request, which is all that the
search needs to know about it; no program is ever copied or stopped in the middle. A situation is what the store holds,
the answers that each program had, and the requests that are still on their way; it is looked at once, however it came
about. A program that is never continued is one that died there.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from microagg_core.errors import StorageError, TransientStorageError
from microagg_core.store.objects import Store

#: What a store holds: names and contents.
Held = frozenset[tuple[str, bytes]]
#: What is asked of it: the kind of request, the object, and what else belongs to it.
Request = tuple[str, str, Any]
WRITES = ("put", "create", "delete", "put_if")


@dataclass(frozen=True)
class Failed:
    """An answer that is an exception."""

    kind: type[BaseException]

    def raised(self) -> BaseException:
        return self.kind("provoked")


class _PausedError(BaseException):
    """A program came to a request that has no answer yet."""


@dataclass(frozen=True)
class ModelStore(Store):
    """A store whose requests are answered by a function; every method is one request."""

    turn: Callable[[Request], Any] = field(default=lambda request: None, compare=False)

    def _ask(self, kind: str, name: str, what: Any = None) -> Any:
        answer = self.turn((kind, name, what))
        if isinstance(answer, Failed):
            raise answer.raised()
        return answer

    def size(self, name: str) -> int | None:
        found: int | None = self._ask("size", name)
        return found

    def read(self, name: str) -> bytes:
        return bytes(self._ask("read", name))

    def chunks(self, name: str) -> Iterator[bytes]:
        yield self.read(name)

    def put(self, name: str, data: bytes, *, durable: bool = False) -> None:
        self._ask("put", name, data)

    def put_checked(self, name: str, chunks: Iterable[bytes], sha256: str, n_bytes: int) -> bool:
        data = b"".join(chunks)
        assert (hashlib.sha256(data).hexdigest(), len(data)) == (sha256, n_bytes)
        self._ask("put", name, data)
        return True

    def create(self, name: str, data: bytes) -> bool:
        return bool(self._ask("create", name, data))

    def delete(self, name: str) -> None:
        self._ask("delete", name)

    def delete_many(self, names: Sequence[str]) -> None:
        for name in names:  # one request may remove some and leave others for later
            self.delete(name)

    def list(self, prefix: str = "", *, unfinished: bool = False) -> Any:
        return list(self._ask("list", prefix))

    def sizes(self, prefix: str) -> dict[str, int]:
        return dict(self._ask("sizes", prefix))

    def folders(self, prefix: str = "") -> Any:
        return list(self._ask("folders", prefix))

    def versioned(self, name: str) -> tuple[bytes | None, str]:
        data = self._ask("versioned", name)
        return data, version_of(data)

    def put_if(self, name: str, data: bytes, version: str) -> bool:
        return bool(self._ask("put_if", name, (data, version)))


def version_of(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()


def answered(held: Held, request: Request) -> tuple[Held, Any]:
    kind, name, what = request
    objects = dict(held)
    there = objects.get(name)
    if kind == "size":
        return held, None if there is None else len(there)
    if kind == "read":
        return held, Failed(StorageError) if there is None else there
    if kind == "versioned":
        return held, there
    if kind in ("list", "sizes", "folders"):
        below = [known for known in objects if known.startswith(f"{name}/" if name else "")]
        if kind == "sizes":
            return held, tuple(sorted((known, len(objects[known])) for known in below))
        if kind == "list":
            return held, tuple(sorted(below))
        tails = [known[len(name) + 1 if name else 0 :] for known in below]
        return held, tuple(sorted({tail.partition("/")[0] for tail in tails if "/" in tail}))
    granted = {"create": there is None, "put_if": what is not None and version_of(there) == what[-1]}.get(kind, True)
    if not granted:
        return held, False
    objects.pop(name, None)
    if kind != "delete":
        objects[name] = what[0] if kind == "put_if" else what
    return frozenset(objects.items()), True


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    value: Any = None
    error: BaseException | None = None


#: A program, given the store that it is to use.
Program = Callable[[Store], Any]
#: How far a program is: one number for each sequence of answers that it can have had. A dead one is nowhere.
Place = int
DEAD: Place = -1


@dataclass(frozen=True)
class _Walked:
    """What is known of a place: the answers that led there, and what the program does next."""

    answers: tuple[Any, ...]
    then: Request | Ended


class _Walker:
    """One program, run anew for every place that it comes to, and only once for each."""

    def __init__(self, program: Program, url: str) -> None:
        self._program, self._url = program, url
        self.places = [_Walked((), self._replayed(()))]
        self._after: dict[tuple[Place, Any], Place] = {}

    def told(self, place: Place, answer: Any) -> Place:
        """Where the program is after one more answer."""
        after = self._after.get((place, answer))
        if after is None:
            answers = (*self.places[place].answers, answer)
            after = self._after[place, answer] = len(self.places)
            self.places.append(_Walked(answers, self._replayed(answers)))
        return after

    def _replayed(self, answers: tuple[Any, ...]) -> Request | Ended:
        waiting = iter(answers)
        first: list[Request] = []

        def turn(request: Request) -> Any:
            for answer in waiting:
                return answer
            # What a program does on its way out of being paused is not what it would have done.
            first.append(request)
            raise _PausedError

        ended = Ended()
        try:
            ended = Ended(self._program(ModelStore(self._url, turn=turn)))
        except _PausedError:
            pass
        except BaseException as error:
            ended = Ended(error=error)
        return first[0] if first else ended


@dataclass(frozen=True, slots=True)
class Situation:
    """What the store holds, where each program is, what is on its way, and how many faults may come yet."""

    held: int
    places: tuple[Place, ...]
    on_their_way: frozenset[Request]
    faults: int

    def moved(self, program: int, place: Place) -> tuple[Place, ...]:
        return (*self.places[:program], place, *self.places[program + 1 :])


class Search:
    """A walk through the situations that programs can come to.

    ``watch`` is called for every change of the store, with what it held before and after; ``at_end`` whenever a
    program ends, with its number, how, what the store holds then, and whether nothing has gone wrong on the way.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        url: str,
        watch: Callable[[Held, Held], None],
        at_end: Callable[[int, Ended, Held, bool], None],
    ) -> None:
        self._walkers = [_Walker(program, url) for program in programs]
        # A disk is done with a request when it answers; what goes through a network may arrive later.
        self._may_be_late = url.startswith("s3:")
        self._watch, self._at_end = watch, at_end
        self._helds: list[Held] = []
        self._numbers: dict[Held, int] = {}
        self._answered: dict[tuple[int, Request], tuple[int, Any]] = {}
        self._ends: set[tuple[int, Place, int, bool]] = set()
        self.steps = 0

    def everything(self, held: Held, faults: int) -> int:
        """Come to every situation that there can be; returns how many there are."""
        start = self._start(held, faults)
        seen, waiting = {start}, [start]
        while waiting:
            for follower in self._followers(waiting.pop(), faults):
                if follower not in seen:
                    seen.add(follower)
                    waiting.append(follower)
        return len(seen)

    def walks(self, held: Held, faults: int, n_walks: int, seed: int) -> int:
        """Walk at random to the end, many times; returns how many situations there were."""
        draw = random.Random(seed)
        seen = set()
        for _ in range(n_walks):
            followers = [self._start(held, faults)]
            faults_left = faults
            while followers:
                # Most requests fail in more ways than they succeed: without a bias no walk would come to a smooth end.
                smooth = [one for one in followers if one.faults == faults_left]
                now = draw.choice(smooth if smooth and draw.random() < 0.95 else followers)
                faults_left = now.faults
                seen.add(now)
                followers = self._followers(now, faults)
        return len(seen)

    def stores(self) -> list[Held]:
        return self._helds

    def _start(self, held: Held, faults: int) -> Situation:
        return Situation(self._number(held), (0,) * len(self._walkers), frozenset(), faults)

    def _number(self, held: Held) -> int:
        number = self._numbers.setdefault(held, len(self._helds))
        if number == len(self._helds):
            self._helds.append(held)
        return number

    def _answer(self, held: int, request: Request) -> tuple[int, Any]:
        key = held, request
        if key not in self._answered:
            after, answer = answered(self._helds[held], request)
            self._watch(self._helds[held], after)
            self._answered[key] = self._number(after), answer
        return self._answered[key]

    def _followers(self, now: Situation, faults: int) -> list[Situation]:
        """Every situation that one step leads to."""
        found = [
            Situation(self._answer(now.held, request)[0], now.places, now.on_their_way - {request}, now.faults)
            for request in now.on_their_way
        ]
        for program, place in enumerate(now.places):
            then = None if place == DEAD else self._walkers[program].places[place].then
            if isinstance(then, Ended):
                self._note_end(program, place, then, now, faults)
            elif then is not None:
                found += self._steps_of(now, program, place, then)
        self.steps += len(found)
        return found

    def _note_end(self, program: int, place: Place, end: Ended, now: Situation, faults: int) -> None:
        key = program, place, now.held, now.faults == faults
        if key not in self._ends:
            self._ends.add(key)
            self._at_end(program, end, self._helds[now.held], now.faults == faults)

    def _steps_of(self, now: Situation, program: int, place: Place, request: Request) -> list[Situation]:
        told = self._walkers[program].told
        held, answer = self._answer(now.held, request)
        found = [Situation(held, now.moved(program, told(place, answer)), now.on_their_way, now.faults)]
        if not now.faults or request[0] not in WRITES:
            return found
        late, faults = now.on_their_way | {request}, now.faults - 1
        for kind in (TransientStorageError, KeyboardInterrupt):
            places = now.moved(program, told(place, Failed(kind)))
            found += [Situation(after, places, now.on_their_way, faults) for after in (now.held, held)]
            if self._may_be_late:
                found.append(Situation(now.held, places, late, faults))
        if self._may_be_late:
            found.append(Situation(now.held, now.moved(program, DEAD), late, faults))
        return found


def alone(program: Program, url: str, held: Held) -> tuple[Ended, Held]:
    def turn(request: Request) -> Any:
        nonlocal held
        held, answer = answered(held, request)
        return answer

    try:
        ended = Ended(program(ModelStore(url, turn=turn)))
    except StorageError as error:
        ended = Ended(error=error)
    return ended, held


def asked_of(store: Store, request: Request) -> Any:
    kind, name, what = request
    try:
        if kind == "put":
            return store.put_checked(name, [what], version_of(what), len(what))
        if kind == "put_if":
            there, version = store.versioned(name)
            return version_of(there) == what[1] and store.put_if(name, what[0], version)
        if kind == "create":
            return store.create(name, what)
        if kind == "sizes":
            return tuple(sorted(store.sizes(name).items()))
        if kind in ("list", "folders"):
            return tuple(store.list(name, unfinished=True) if kind == "list" else store.folders(name))
        answer = getattr(store, kind)(name)
        return answer[0] if kind == "versioned" else answer
    except StorageError as error:
        return Failed(type(error))


def walk_on(
    store: Store, programs: Sequence[Program], faults: int, draw: random.Random, watch: Callable[[], None]
) -> list[Request | Ended | None]:
    """One walk at random over a real store, each step a request; returns where every program is in the end.

    ``watch`` is called after every request that may change what is there. Now and then a program dies, or is told of a
    failure and goes on, and what it asked for happens never or later.
    """
    walkers = [_Walker(program, store.url) for program in programs]
    places = [0] * len(programs)
    late: list[Request] = []

    def then(program: int) -> Request | Ended | None:
        return None if places[program] == DEAD else walkers[program].places[places[program]].then

    while alive := [program for program in range(len(programs)) if isinstance(then(program), tuple)]:
        if late and draw.random() < 0.1:
            asked_of(store, late.pop(draw.randrange(len(late))))
            watch()
        program = draw.choice(alive)
        request = then(program)
        assert isinstance(request, tuple)
        fault = draw.choice(("dies", "fails", "late")) if faults and draw.random() < 0.05 else ""
        faults -= bool(fault)
        if fault == "late" and request[0] in WRITES:
            late.append(request)
        answer = Failed(TransientStorageError) if fault else asked_of(store, request)
        if request[0] in WRITES:
            watch()
        places[program] = DEAD if fault == "dies" else walkers[program].told(places[program], answer)
    for request in late:
        asked_of(store, request)
        watch()
    return [then(program) for program in range(len(programs))]
