"""Wiring: the tasks of a run, derived from the steps' declarations and from what was done before."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
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
    def do(self, step: Step, *, round_number: int = 0) -> list[Receipt]:
        """Have all tasks of a step done; see :meth:`tasks`."""

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
        return Pieces(self.run, self._known[output.name]).load(output)

    def tasks(self, step: Step, *, round_number: int = 0) -> list[Task]:
        """Wire the tasks of a step; one that is done several times has other numbers in each round."""
        declared: list[Step | CompanionStep] = [step, *self.companions(step.name)]
        knows = self._known_pieces(step, declared)
        of_all = tuple(piece for output in step.all for piece in self.written(output).pieces)
        sent = [(maker, output.name, slices) for output in step.receives for maker, slices in self._sent(output)]
        if step.deals is not None:
            dealt = [step.deals(slices) for _, _, slices in sent]
            n_tasks = max(map(len, dealt), default=0)
        else:
            n_tasks = self.counts[step.per]
            dealt = [slices.by_destination(n_tasks) for _, _, slices in sent]
        same = {output.name for step_or_companion in declared for output in step_or_companion.same}
        others = [other.name for other in self.steps.values() if other.per == step.per and other.name != step.name]
        tasks = []
        for place in range(n_tasks):
            receipts = [self._receipts[name][place] for name in others if place in self._receipts[name]]
            own = tuple(piece for receipt in receipts for piece in receipt.own_pieces if piece.output in same)
            rows = tuple(
                Sent(maker, name, of_tasks[place])
                for (maker, name, _), of_tasks in zip(sent, dealt, strict=True)
                if len(of_tasks[place])
            )
            tasks.append(Task(step.name, round_number * n_tasks + place, self.run, (*knows, *own, *of_all), rows))
        return tasks

    def _known_pieces(self, step: Step, declared: Sequence[Step | CompanionStep]) -> tuple[Piece, ...]:
        for output in step.knows:
            if output.name not in self._known:
                raise InternalError(f"a bug: step {step.name} needs {output.name}; please report it")
        names = dict.fromkeys(output.name for step_or_companion in declared for output in step_or_companion.knows)
        return tuple(piece for name in names for piece in self._known.get(name, ()))

    def _sent(self, output: Rows) -> list[tuple[str, Slices]]:
        """Join the rows that were sent, by the step that sent them."""
        joined = (
            (name, Slices.joined(receipt.slices(output) for receipt in self._receipts[name].values()))
            for name in self.steps
        )
        return [(name, slices) for name, slices in joined if len(slices)]

    def note(self, step: Step, receipts: Sequence[Receipt]) -> None:
        """Account for tasks that are done."""
        self.steps[step.name] = step
        self._receipts.setdefault(step.name, {}).update((receipt.number, receipt) for receipt in receipts)

    def receipts(self, *steps: Step) -> list[Receipt]:
        """Receipts of steps, step by step and in the order of their numbers."""
        return [receipt for step in steps for _, receipt in sorted(self._receipts.get(step.name, {}).items())]

    def written(self, *outputs: Output[Any]) -> Pieces:
        """List objects that tasks wrote, step by step and in the order of their numbers."""
        names = {output.name for output in outputs}
        receipts = self.receipts(*self.steps.values())
        return Pieces(self.run, (p for receipt in receipts for p in receipt.own_pieces if p.output in names))

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
