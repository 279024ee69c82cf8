"""What a release promises, and what it does not; how that is checked again, and how it is cited."""

from __future__ import annotations

import shlex

from microagg_core.release.manifest import Manifest, ProtectEntry, SeriesEntry
from microagg_core.release.pages.document import Block, Link, Name, Section, Snippet, Strong, Text, bullets, paragraph
from microagg_core.release.pages.escaping import paragraphs, visible
from microagg_core.release.pages.method import names
from microagg_core.release.pages.words import about, address, in_role, title, units_word, year
from microagg_core.spec.about import licence_url

#: More columns than these make a command that nobody copies.
_MOST_IN_A_COMMAND = 20


def promises_section(manifest: Manifest) -> Section:
    roles = ("quasi_identifier", "weight", "blocking")
    keys = tuple(column for role in roles for column in in_role(manifest, role))
    shared = (
        f" is shared by at least {manifest.k} {units_word(manifest)} (k-anonymity, k = {manifest.k}), missing values "
        "counted as values."
    )
    promised: list[Text] = [("Every combination of ", *names(keys), shared)]
    if manifest.has_whole_units:
        fitting = f" of some or all records of a unit finds at least {manifest.k} units that fit: {_PROFILE}"
        promised.insert(0, ("Whoever knows ", *names(keys), fitting.format(k=manifest.k)))
    elif manifest.several:
        promised.append((_APART,))
    by_name = {column.name: column for column in manifest.columns}
    promised += [
        ("So is every combination of ", *names(tuple(by_name[name] for name in known)), " alone.")
        for known in manifest.known or ()
    ]
    promised += [_protected(name, entry) for name, entry in manifest.protect.items()]
    blocks: list[Block] = [bullets(*promised)]
    if (series := manifest.series) is not None:
        order = "the first" if series.night == 0 else f"number {series.night + 1}"
        blocks.append(paragraph(f"This release is {order} of a series, {_MODES[series.mode]}."))
        blocks.append(bullets(*_nights(series, manifest.k, "a unit" if manifest.several else "somebody")))
    passed = ", ".join(visible(check.name) for check in manifest.checks if check.passed)
    if passed:
        blocks.append(paragraph(f"Before it was published, the files were read again and checked: {passed}."))
    blocks += [paragraph(Strong("Not promised")), bullets(*_not_promised(manifest))]
    return Section("promises", "What is promised", tuple(blocks))


_APART = (
    "The values of a record do not tell which others are of its unit, such as of its household: in records of a unit "
    "they were found to be no more alike than in others that share these combinations."
)
_PROFILE = (
    "at least {k} have equally many records, and the same combinations of these values in them. That holds whatever "
    "ties the records of a unit together, such as an income that all of them have."
)


def _protected(name: str, entry: ProtectEntry) -> Text:
    words: list[str] = []
    if entry.distinct is not None:
        words.append(
            f"has at least {entry.distinct} different values, missing ones apart, among those who share a combination"
        )
    if entry.t is not None:
        words.append(
            "is distributed among those who share a combination nearly as in the whole release (t-closeness: their "
            f"distance, an earth mover's, is at most {entry.t:g} among those with a value, and the shares of those "
            "without differ by no more)"
        )
    return (Name(name), f" {', and '.join(words) or 'is protected'}.")


_MODES = {
    "disjoint": "in which everybody is released once, and never again",
    "atoms": "in which those who were grouped together stay together, with the same values",
    "rotation": "in which those who were grouped together stay together for a number of releases, and are never "
    "released again afterwards",
    "independent": "in which each release was grouped anew",
}
_NOTHING_TOGETHER = (
    "The releases of the series promise nothing together: who has several may learn more than one tells."
)
_CHANGES = (
    "From one release to the next, a value of a column that is released as it came changes for nobody of those who "
    "share a combination, or for at least {k}."
)
_OLDER = "Values by which records are grouped are those of the release in which they first stood, so they may be older."


def _nights(series: SeriesEntry, k: int, who: str) -> list[str]:
    if series.mode == "independent":
        rare = series.smallest_trace
        shared = "" if rare is None else f" The rarest history of releases is shared by {rare:,}."
        return [f"{_NOTHING_TOGETHER}{shared}"]
    said = [
        f"What all releases of the series did with {who}, absence included, they did with at least {k}. Adding, "
        "subtracting or comparing the files tells of that many or more."
    ]
    if series.guarantee == "trace+changes":
        said.append(_CHANGES.format(k=k))
    if series.night and series.mode in ("atoms", "rotation"):
        said.append(_OLDER)
    return said


def pooling_words(k: int, *, several: bool = False) -> str:
    """Say what members of a group of k compute who pool their own values; they are units where these have several rows.

    >>> pooling_words(5)
    "4 of 5 who share a combination can compute the fifth's values from their own and the mean"
    >>> pooling_words(2, several=True)
    "each of 2 units that share a combination can compute the other's values from its own and the mean"
    """
    who, whose = ("units that", "its") if several else ("who", "his")
    if k == 2:
        return f"each of 2 {who} share a combination can compute the other's values from {whose} own and the mean"
    last = {3: "third", 4: "fourth", 5: "fifth"}.get(k, "last one")
    return f"{k - 1} of {k} {who} share a combination can compute the {last}'s values from their own and the mean"


def _not_promised(manifest: Manifest) -> list[Text]:
    unsafe = tuple(c for c in in_role(manifest, "confidential") if c.name not in manifest.protect)
    said: list[Text] = []
    if unsafe:
        differ = " differ" if len(unsafe) > 1 else " differs"
        among, who = ("the units that fit", "a unit") if manifest.has_whole_units else _SHARING
        why = f"where all have one value, whoever knows that {who} is among them knows it."
        said.append(("That ", *names(unsafe), f"{differ} among {among}: {why}"))
    if manifest.several and manifest.protect:
        protected = names(tuple(column for column in manifest.columns if column.name in manifest.protect))
        alike = " is that of all units that fit, of one in this record and of another in that."
        said.append(("That no value of ", *protected, alike))
    if any(column.is_mean for column in manifest.columns):
        pooled = pooling_words(manifest.k, several=manifest.several is not None)
        said.append((f"That values are kept from those who know others of their group: {pooled}.",))
    same = "units" if manifest.several else "people or firms"
    said.append((f"That nothing follows from other data about the same {same}. Do not try to find anybody.",))
    return said


_SHARING = ("those who share a combination", "somebody")


# --- Verifying -------------------------------------------------------------------------------------------------


_BY_HAND = """\
python3 -c '
import json
for part in json.load(open("manifest.json"))["parts"]:
    print(part["sha256"], part["name"], sep="  ")
' | sha256sum --check
"""


def verify_section(manifest: Manifest) -> Section:
    return Section(
        "verify",
        "How to check it",
        (
            paragraph(
                "With microagg, which reads every file and counts again. ",
                Name("DIGEST"),
                " is the SHA-256 of ",
                Name("manifest.json"),
                ", which you should have from the publisher by another way; ",
                Name("--k"),
                " and the columns are what you demand, so change them to what you were promised:",
            ),
            Snippet("sh", "with microagg", _command(manifest)),
            *([paragraph(_not_recounted(manifest))] if manifest.several else []),
            paragraph("Without it, the digests of all files against the manifest, and the manifest's own:"),
            Snippet("sh", "without microagg", f"{_BY_HAND}sha256sum manifest.json\n"),
            paragraph(
                "Where ",
                Name("manifest.json.minisig"),
                " lies beside it, the release is signed, and the publisher's key tells whether by him:",
            ),
            Snippet("sh", "the signature", "minisign -V -p PUBLISHER.pub -m manifest.json\n"),
        ),
    )


def _not_recounted(manifest: Manifest) -> str:
    shared, check = f"{manifest.k} units fit whatever is known of one", "profiles"
    if not manifest.has_whole_units:
        shared, check = f"these are of {manifest.k} units, and that no value tells which are of one,", "ties"
    return (
        f"It counts how many records have each combination. That {shared} nobody can count again, as no record tells "
        f"whose it is: it was counted before the release was published ({check}, among the checks)."
    )


def _command(manifest: Manifest) -> str:
    words = ["microagg", "verify", address(manifest) or ".", "--k", str(manifest.k)]
    for option, role in (("--quasi-identifiers", "quasi_identifier"), ("--blocking", "blocking")):
        columns = [column.name for column in in_role(manifest, role)]
        fit = all("," not in name and visible(name) == name for name in columns)
        if columns and fit and len(columns) <= _MOST_IN_A_COMMAND:
            words += [option, ",".join(columns)]
    for option in ("distinct", "t"):
        held = [f"{name}={of}" for name, entry in manifest.protect.items() if (of := getattr(entry, option))]
        fit = all("," not in text and visible(text) == text for text in held)
        if held and fit and len(held) <= _MOST_IN_A_COMMAND:
            words += [f"--{option}", ",".join(held)]
    return " ".join(shlex.quote(word) for word in words) + " --sha256 DIGEST\n"


# --- Citing ----------------------------------------------------------------------------------------------------


def citation(manifest: Manifest) -> str:
    """Cite the release as its publisher wants it, or as put together from what is said.

    A citation without the release it is of is of no use, so that stands in every one.
    """
    said, which = about(manifest), f"release {manifest.id}, revision {manifest.revision}"
    if said.citation:
        return f"{' '.join(paragraphs(said.citation)).rstrip('.')}. {which.capitalize()}."
    whose = f"{said.publisher} " if said.publisher else ""
    where = f" {url}" if (url := address(manifest)) else ""
    return (
        f"{whose}({year(manifest)}): {title(manifest)}. {which.capitalize()}. Microaggregated, k = {manifest.k}.{where}"
    )


def cite_section(manifest: Manifest) -> Section:
    said = about(manifest)
    blocks: list[Block] = [paragraph(citation(manifest)), Snippet("bibtex", "BibTeX", _bibtex(manifest))]
    if said.licence:
        blocks.append(paragraph("Licence: ", licence_word(said.licence)))
    return Section("cite", "How to cite it", tuple(blocks))


def licence_word(licence: str) -> Link:
    return Link(licence, licence_url(licence))


def _bibtex(manifest: Manifest) -> str:
    said = about(manifest)
    fields = {
        "title": title(manifest),
        "author": said.publisher or "",
        "year": year(manifest),
        "version": f"{manifest.id}, {manifest.revision}",
        "url": address(manifest) or "",
        "note": f"Microaggregated, k = {manifest.k}",
    }
    lines = [f"  {name} = {{{_in_braces(text)}}},\n" for name, text in fields.items() if text]
    # A key has no letters that TeX takes for something else.
    key = "".join(mark for mark in manifest.name if mark.isascii() and (mark.isalnum() or mark in "-_")) or "release"
    return f"@misc{{{key}-{year(manifest)},\n{''.join(lines)}}}\n"


def _in_braces(text: str) -> str:
    r"""Escape a text for BibTeX.

    >>> print(_in_braces("R&D {50 %}"))
    R\&D \{50 \%\}
    """
    plain = visible(text).replace("\\", r"\textbackslash ")
    return "".join(f"\\{mark}" if mark in "{}&%$#_" else mark for mark in plain)
