"""Runs that race for one id, and readers and cleaners that look while they do."""

from __future__ import annotations

import signal

from soak import processes
from soak.case import Case
from soak.command import Command
from soak.data import CSV, OTHER_K, PLAIN
from soak.kinds import kind


def _together(case: Case, specs: list[str], *options: str) -> list[Command]:
    """Several runs, each begun a moment after the last."""
    case.has_rivals = True
    commands = []
    for spec in specs:
        how = () if case.through_prefect else ("--direct",)
        commands.append(case.start(arguments=("run", spec, *how, *options)))
        if spec != specs[-1] or len(commands) < len(specs):
            case.pause(0, 2)
    return commands


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
    victim = case.random.choice([first, second])
    victim.send(case.random.choice([signal.SIGKILL, signal.SIGTERM]))
    case.did.append("one of them was ended")
    case.finish(first)
    case.finish(second)


@kind(configurations=(PLAIN,))
def different_runs_race(case: Case) -> None:
    """Two runs of one id with another k: one wins, the other is told."""
    case.may_overlap()
    case.allow(OTHER_K)
    other = case.site.write_spec("other.yaml", k=OTHER_K.k)
    specs = ["release.yaml", other]
    case.random.shuffle(specs)
    ends = [case.finish(command) for command in _together(case, specs)]
    if sum(ended.succeeded for ended in ends) > 1:
        case.wrongs.append("two different releases of one id both say that they are published")
    _back_to_the_first(case)


@kind(configurations=(PLAIN,))
def replacing_runs_race(case: Case) -> None:
    """Two runs of one id with another k, both with --replace: revisions follow each other."""
    case.may_overlap()
    case.allow(OTHER_K)
    case.finish(case.start())
    other = case.site.write_spec("other.yaml", k=OTHER_K.k)
    for command in _together(case, [other, "release.yaml", other], "--replace"):
        case.finish(command)
    _back_to_the_first(case)


def _back_to_the_first(case: Case) -> None:
    """The undisturbed command after a race: the first release, in place of whatever won."""
    case.always_again = case.may_leave_runs = True
    case.again = case.arguments("--replace")


@kind(configurations=(PLAIN, CSV))
def verified_all_the_time(case: Case) -> None:
    """``microagg verify`` again and again while a release is made, and while it is replaced."""
    case.may_overlap()
    case.allow(OTHER_K if case.site.configuration == PLAIN else case.site.configuration)
    case.has_rivals = True
    seen_released = False
    commands = ["release.yaml", case.site.write_spec("other.yaml", k=OTHER_K.k)]
    for spec in commands[: 2 if case.site.configuration == PLAIN else 1]:
        run = case.start(arguments=("run", spec, "--direct", "--replace"))
        while not run.is_over():
            ended = case.site.start("verify", "release").wait()
            if ended.code != 0 and (seen_released or ended.code != 5):
                case.wrongs.append(f"verify while a release is made: exit {ended.code}, {ended.sentences()}")
            seen_released |= ended.code == 0
        case.finish(run)
    _back_to_the_first(case)


@kind()
def cleaned_under_way(case: Case) -> None:
    """``microagg clean --all`` while a run is under way takes its work away."""
    command = case.start()
    case.moment(command)
    case.may_lose_work = True
    cleaned = case.site.start("clean", "release.yaml", "--all").wait()
    case.did.append(f"microagg clean --all, exit {cleaned.code}")
    if cleaned.code != 0:
        case.wrongs.append(f"clean: exit {cleaned.code}, {cleaned.sentences()}")
    case.finish(command)


@kind()
def cleaned_between(case: Case) -> None:
    """``microagg clean --all`` between a killed run and the next."""
    case.broken_off()
    case.may_lose_work = True
    cleaned = case.site.start("clean", "release.yaml", "--all").wait()
    if cleaned.code != 0:
        case.wrongs.append(f"clean: exit {cleaned.code}, {cleaned.sentences()}")
    case.finish(case.start())


@kind(configurations=(PLAIN,))
def run_again_while_the_first_stands_still(case: Case) -> None:
    """A run is stopped, an identical one publishes, and the first goes on."""
    case.has_rivals = True
    first = case.start()
    case.moment(first)
    everything = processes.marked(case.site.mark)
    for process in everything:
        processes.send(process, signal.SIGSTOP)
    try:
        second = case.start()
        case.finish(second)
    finally:
        for process in everything:
            processes.send(process, signal.SIGCONT)
    first.held_up += first.seconds()
    case.finish(first)
