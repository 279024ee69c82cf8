"""The judge: what must hold after a fault, whatever the fault was."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from soak import processes
from soak.case import Case
from soak.command import Ended
from soak.data import CANARY
from soak.reader import UnreadableError, latest, manifests, read_json, read_release

#: What libraries and Python print when they are in trouble.
_NOISE = re.compile(
    r"Traceback|^\s+File \"|distributed\.[\w.]+ - |tornado|During handling|resource_tracker|ArrowInvalid|Task exception"
    r"|\b[A-Z]\w+Warning\b|was never awaited"
    r"|Exception ignored|Fatal Python error|Segmentation fault|core dumped|\bWARNING\b|\bERROR\b",
    re.MULTILINE,
)
_NEEDLES = (CANARY.encode(), CANARY.encode("utf-16-le"))
#: Which record it is tells of it as its value does.
_RECORD_NUMBER = re.compile(r"\b(?:record|row|line)\s+(?:number\s+|no\.?\s*)?[0-9]+\b")
_LEAVING_SECONDS = 20.0
#: Where compiled kernels are kept if they can be kept nowhere else: a cache, and not left by mistake.
_KERNELS = f"microagg-{os.getuid()}"
_LARGEST_SEARCHED = 256 * 2**20


#: What the command says of a release that is out although something failed; no other sentence about publishing will do.
_SAYS_PUBLISHED = re.compile(r"release \S+ is (?:already )?published in \S+")


def of_command(ended: Ended, codes: frozenset[int]) -> Iterator[str]:
    """Tell what is wrong with how a command ended, which may fail with these codes."""
    yield from (f"{where} tells a record's number: {m[0]!r}" for where, text in _said(ended)
                for m in _RECORD_NUMBER.finditer(text))  # fmt: skip
    yield from (f"{where} holds a value of a record" for where, text in _said(ended) if _holds_canary(text.encode()))
    if ended.hung:
        yield f"{ended.hung}; over after {ended.seconds:.0f} s with exit code {ended.code}"
    if ended.killed:
        return
    sentences = ended.sentences()
    if ended.code not in codes | {0}:
        yield f"exit code {ended.code} is not what is documented for this: {_last_words(ended)}"
    if any("a bug" in sentence for sentence in sentences):
        yield f"'a bug': {sentences[0]}"
    if noise := _NOISE.search(ended.err + "\n" + ended.out):
        yield f"a library's words on the terminal: {_line_at(ended.err + chr(10) + ended.out, noise.start())!r}"
    if ended.code > 0 and len(sentences) != 1:
        yield f"{len(sentences)} sentences instead of one with exit code {ended.code}: {sentences}"


def _said(ended: Ended) -> list[tuple[str, str]]:
    return [("standard output", ended.out), ("standard error", ended.err)]


def _last_words(ended: Ended) -> str:
    lines = ended.err.splitlines()
    return lines[-1] if lines else "nothing said"


def _line_at(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    return text[start : text.find("\n", position)][:200]


def of_false_words(case: Case, ended: Ended) -> Iterator[str]:
    """A command that fails must not call undone what is done."""
    if ended.killed or ended.code == 0 or case.has_rivals:
        return
    words = " ".join(ended.sentences())
    if released_now(case) and not _SAYS_PUBLISHED.search(words):
        yield f"the release is published, but exit code {ended.code} says: {words}"
    if not released_now(case) and _SAYS_PUBLISHED.search(words):
        yield f"no release can be read, but exit code {ended.code} says: {words}"


def released_now(case: Case) -> bool:
    """Tell whether there is a release that can be read."""
    try:
        return latest(case.site.output) is not None
    except UnreadableError:
        return False
    except Exception:  # no reader can reach it now; the re-run will show
        return False


def of_leftovers(case: Case) -> Iterator[str]:
    """Find processes and temporary files that outlive their command."""
    mark = case.site.mark
    seconds = _LEAVING_SECONDS * processes.load_factor()
    if not processes.wait_until(lambda: not processes.marked(mark), seconds):
        yield f"left running {seconds:.0f} s after its end: {processes.describe(processes.marked(mark))}"
        processes.end(mark)
    if not any(ended.killed for ended in case.ended):
        # An undisturbed run may leave something there, too.
        left = {path.name for path in case.site.temporary.iterdir()} - case.reference.leaves - {_KERNELS}
        if left:
            yield f"left in the temporary folder: {sorted(left)[:6]}"


def of_unnamed_objects(case: Case) -> Iterator[str]:
    """Find objects at the output that no manifest names."""
    names = set(case.site.output.versions())
    named = {"latest.json"}
    try:
        for manifest in manifests(names):
            folder = manifest.removesuffix("manifest.json")
            named |= {manifest, f"{folder}manifest.json.minisig", f"{folder}withdrawn.json"}
            named |= read_release(case.site.output, manifest).names
    except UnreadableError as error:
        yield str(error)
        return
    if unnamed := sorted(names - named):
        yield f"{len(unnamed)} objects at the output that no manifest names: {unnamed[:4]}"


def of_missing_pages(case: Case) -> Iterator[str]:
    """Find pages that are not where readers look for them, once all is done."""
    output = case.site.output
    names = set(output.versions())
    for manifest in manifests(names):
        folder = manifest.rpartition("/")[0]
        pages = {f"{folder}/{page['name']}" for page in read_json(output, manifest).get("pages", [])}
        if missing := sorted(pages - names):
            yield f"at the end {manifest} has no {missing[0]}"


def of_end(case: Case) -> Iterator[str]:
    """Look, after the last undisturbed run, for the release, and nothing but the release."""
    left = [name for name in case.site.work.versions() if name.startswith("runs/")]
    if left and not case.may_leave_runs:
        yield f"staged work after success: {len(left)} objects such as {left[0]}"
    if case.look_at_end is not None:
        yield from case.look_at_end()
        return
    try:
        released = latest(case.site.output)
    except UnreadableError as error:
        yield f"at the end: {error}"
        return
    if released is None:
        yield "at the end there is no release"
    elif released.content != case.reference.content:
        yield "at the end the release has other bytes than the undisturbed one"
    yield from of_unnamed_objects(case)
    yield from of_missing_pages(case)


def of_secrets(case: Case) -> Iterator[str]:
    """Find values of records in names of files, logs, Prefect's database, homes and temporary folders."""
    folder = case.site.folder
    for path in folder.rglob("*"):
        if CANARY in path.name:
            yield f"a file's name holds a value of a record, in {path.parent.relative_to(folder)}"
    for place in ("prefect", "home", "tmp", "logs"):
        yield from (f"{path.relative_to(folder)} holds a value of a record" for path in _holders(folder / place))


def _holders(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.stat().st_size < _LARGEST_SEARCHED and _holds_canary(path.read_bytes()):
            yield path


def _holds_canary(content: bytes) -> bool:
    return any(needle in content for needle in _NEEDLES)
