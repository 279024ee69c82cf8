"""Wiring: the tasks of a run, derived from the steps' declarations and from what was done before."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from microagg_core.data.tables.slices import Slices
from microagg_core.errors import InternalError
from microagg_core.release.pieces import Piece, Place
from microagg_core.release.step import CompanionStep, Output, Pieces, Receipt, Rows, Run, Sent, Step, Task
from microagg_core.store.layout import RunLayout
from microagg_core.store.objects import Store

T = TypeVar("T")


@dataclass(kw_only=True)
class StepsDone(ABC):
    """Account for what a run has done in its folder of the work area, and wire the tasks that follow."""

    work: Store
    key: str = ""
    #: How many tasks there are of each kind ("part", "partition", "file", ...), once that is known.
    counts: dict[str, int] = field(default_factory=dict)
    #: Steps of which tasks are done, in the order in which they were.
    steps: dict[str, Step] = field(default_factory=dict)
    _receipts: dict[str, dict[int, Receipt]] = field(default_factory=dict)
    #: Objects of the whole run, by the names of outputs.
    _known: dict[str, tuple[Piece, ...]] = field(default_factory=dict)

    @property
    def run(self) -> Run:
        return Run(self.work, self.key)

    @property
    def layout(self) -> RunLayout:
        return RunLayout(self.key)

    def companions(self, step: str) -> Sequence[CompanionStep]:
        return ()

    @abstractmethod
    def do(self, step: Step, *, n: int | None = None, round_number: int = 0) -> list[Receipt]:
        """Have all tasks of a step done; see :meth:`tasks`."""

    # --- Objects of the whole run ---

    def know(self, output: Output[T], *values: T, number: int = 0) -> None:
        """Write an object of the whole run, or several; tasks that are to know it read it from now on."""
        put = self.run.put
        pieces = (put(output, output.encode(v), output.name, number, i) for i, v in enumerate(values))
        self._known[output.name] = tuple(pieces)

    def know_piece(self, output: Output[Any], piece: Piece) -> None:
        """Account for an object of the whole run that was written elsewhere."""
        self._known[output.name] = (piece,)

    def known(self, output: Output[T]) -> T:
        """Read an object of the whole run, once a process."""
        return self.run.pieces(self._known[output.name]).load(output)

    # --- Tasks ---

    def tasks(self, step: Step, *, n: int | None = None, round_number: int = 0) -> list[Task]:
        """Wire the tasks of a step.

        Args:
            step: the step.
            n: how many tasks there are; by default as many as there are of what makes one.
            round_number: of a step that is done several times, each time with other numbers.
        """
        companions = self.companions(step.name)
        knows = self._known_pieces(step, companions)
        of_all = tuple(piece for output in step.all for piece in self.written(output).pieces)
        received = {output.name: self._received(step, output) for output in step.receives}
        if step.deals is not None:
            dealt = {name: [(maker, step.deals(slices)) for maker, slices in sent] for name, sent in received.items()}
            n = len(next(of_task for sent in dealt.values() for _, of_task in sent))
        else:
            n = self.counts[step.per] if n is None else n
            dealt = {
                name: [(maker, slices.by_destination(n)) for maker, slices in sent] for name, sent in received.items()
            }
        same = (*step.same, *(output for one in companions for output in one.same))
        others = (other for other in self.steps.values() if other.per == step.per and other.name != step.name)
        makers = [self._receipts[other.name] for other in others]
        tasks = []
        for place in range(n):
            read = tuple(self._same(makers, output, place) for output in same)
            sent = tuple(
                Sent(maker, name, of_task[place])
                for name, of_makers in dealt.items()
                for maker, of_task in of_makers
                if len(of_task[place])
            )
            pieces = (*knows, *(piece for pieces in read for piece in pieces), *of_all)
            tasks.append(Task(step.name, round_number * n + place, self.run, pieces, sent))
        return tasks

    def _known_pieces(self, step: Step, companions: Sequence[CompanionStep]) -> tuple[Piece, ...]:
        for output in step.knows:
            if output.name not in self._known:
                raise InternalError(f"a bug: step {step.name} needs {output.name}; please report it")
        outputs = (*step.knows, *(output for one in companions for output in one.knows))
        names = dict.fromkeys(output.name for output in outputs)
        return tuple(piece for name in names for piece in self._known.get(name, ()))

    def _received(self, step: Step, output: Rows) -> list[tuple[str, Slices]]:
        """Join the rows that were sent, by the step that sent them; an empty list's where none was."""
        makers = [
            (name, Slices.joined(receipt.slices(output) for receipt in self._receipts[name].values()))
            for name in self.steps
        ]
        return [(name, slices) for name, slices in makers if len(slices)] or [(step.name, Slices())]

    @staticmethod
    def _same(makers: Iterable[dict[int, Receipt]], output: Output[Any], place: int) -> tuple[Piece, ...]:
        receipts = (receipts[place] for receipts in makers if place in receipts)
        return tuple(piece for receipt in receipts for piece in receipt.own_pieces if piece.output == output.name)

    # --- What was done ---

    def note(self, step: Step, receipts: Sequence[Receipt]) -> None:
        """Account for tasks that are done."""
        self.steps[step.name] = step
        self._receipts.setdefault(step.name, {}).update((receipt.number, receipt) for receipt in receipts)

    def receipts(self, *steps: Step) -> list[Receipt]:
        """Receipts of steps, step by step and in the order of their numbers."""
        return [
            receipt
            for step in steps
            for _, receipt in sorted(self._receipts.get(step.name, {}).items(), key=lambda item: item[0])
        ]

    def written(self, *outputs: Output[Any]) -> Pieces:
        """List objects that tasks wrote, step by step and in the order of their numbers."""
        names = {output.name for output in outputs}
        receipts = self.receipts(*self.steps.values())
        return self.run.pieces(p for receipt in receipts for p in receipt.own_pieces if p.output in names)

    def has(self, output: Output[Any]) -> bool:
        return bool(self.written(output).pieces)

    def forget_steps(self, *steps: Step) -> None:
        """Take steps for not done whose objects were removed."""
        for step in steps:
            self.steps.pop(step.name, None)
            self._receipts.pop(step.name, None)

    def drop_slices(self, *steps: Step) -> None:
        """Forget where the rows lie that steps sent, once nobody needs them any more."""
        for step in steps:
            receipts = self._receipts.get(step.name, {})
            receipts.update((number, replace(receipt, sent=())) for number, receipt in receipts.items())

    def forget(self, places: Sequence[Place]) -> None:
        """Take what these tasks made for not done, and begin anew."""
        self.run.forget(places)
        self.begin_anew()

    def begin_anew(self) -> None:
        """Know of nothing that was done; what is done is found by its receipts."""
        self.steps.clear()
        self._receipts.clear()
        self._known.clear()
