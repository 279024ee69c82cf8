"""Runs that race for one id, and readers and cleaners that look while they do."""

from __future__ import annotations

import signal

from soak import processes
from soak.case import Case
from soak.command import Command
from soak.data import CSV, OTHER_K, PLAIN
from soak.kinds import kind, strikes


def _together(case: Case, specs: list[str], *options: str) -> list[Command]:
    """Start several runs, each a moment after the last."""
    case.has_rivals = True
    commands: list[Command] = []
    for spec in specs:
        if commands:
            case.pause(0, 2)
        how = () if case.through_prefect else ("--direct",)
        commands.append(case.start(arguments=("run", spec, *how, *options)))
    return commands


def _other_k(case: Case) -> str:
    """Write a spec that releases the same people in other groups."""
    case.may_overlap()
    case.reader.allowed.add(case.references.of(OTHER_K).content)
    return case.site.write_spec("other.yaml", k=OTHER_K.k)


@kind(configurations=(PLAIN, CSV))
def identical_runs_race(case: Case) -> None:
    """Two or three identical runs at once: all succeed, or lose with a sentence."""
    for command in _together(case, ["release.yaml"] * case.random.choice([2, 2, 3])):
        case.finish(command)


@kind(configurations=(PLAIN,))
def identical_runs_race_and_one_dies(case: Case) -> None:
    """Two identical runs at once, of which one is killed."""
    first, second = _together(case, ["release.yaml"] * 2)
    case.moment(first)
    case.random.choice([first, second]).send(case.random.choice([signal.SIGKILL, signal.SIGTERM]))
    case.finish(first)
    case.finish(second)


@kind(configurations=(PLAIN,))
def different_runs_race(case: Case) -> None:
    """Two runs of one id with another k: one wins, the other is told."""
    specs = ["release.yaml", _other_k(case)]
    case.random.shuffle(specs)
    ends = [case.finish(command) for command in _together(case, specs)]
    if sum(ended.succeeded for ended in ends) > 1:
        case.wrongs.append("two different releases of one id both say that they are published")
    _back_to_the_first(case)


@kind(configurations=(PLAIN,))
def replacing_runs_race(case: Case) -> None:
    """Two runs of one id with another k, both with --replace: revisions follow each other."""
    other = _other_k(case)
    case.finish(case.start())
    for command in _together(case, [other, "release.yaml", other], "--replace"):
        case.finish(command)
    _back_to_the_first(case)


def _back_to_the_first(case: Case) -> None:
    """Give the undisturbed command after a race: the first release, in place of whatever won."""
    case.always_again = case.may_leave_runs = True
    case.again = case.arguments("--replace")


@kind(configurations=(PLAIN, CSV))
def verified_all_the_time(case: Case) -> None:
    """``microagg verify`` again and again while a release is made, and while it is replaced."""
    case.has_rivals = True
    seen_released = False
    for spec in ["release.yaml", *([_other_k(case)] if case.site.configuration == PLAIN else [])]:
        run = case.start(arguments=("run", spec, "--direct", "--replace"))
        while not run.is_over():
            ended = case.site.start("verify", "release").wait()
            if ended.code != 0 and (seen_released or ended.code != 5):
                case.wrongs.append(f"verify while a release is made: exit {ended.code}, {ended.sentences()}")
            seen_released |= ended.code == 0
        case.finish(run)
    _back_to_the_first(case)


def _clean(case: Case) -> None:
    case.may_lose_work = True
    cleaned = case.site.start("clean", "release.yaml", "--all").wait()
    if cleaned.code != 0:
        case.wrongs.append(f"clean: exit {cleaned.code}, {cleaned.sentences()}")


@strikes()
def cleaned_under_way(case: Case, _: Command) -> None:
    """``microagg clean --all`` while a run is under way takes its work away."""
    _clean(case)


@kind()
def cleaned_between(case: Case) -> None:
    """``microagg clean --all`` between a killed run and the next."""
    case.broken_off()
    _clean(case)
    case.finish(case.start())


@strikes(configurations=(PLAIN,))
def run_again_while_the_first_stands_still(case: Case, first: Command) -> None:
    """A run is stopped, an identical one publishes, and the first goes on."""
    case.has_rivals = True
    everything = processes.marked(case.site.mark)
    for process in everything:
        processes.send(process, signal.SIGSTOP)
    try:
        case.finish(case.start())
    finally:
        for process in everything:
            processes.send(process, signal.SIGCONT)
    first.held_up += first.seconds()
