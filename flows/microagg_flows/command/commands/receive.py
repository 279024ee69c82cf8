"""``microagg verify``, ``sign`` and ``keys``: what a receiver looks at, and what lets him know from whom it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from microagg_core.errors import SpecError
from microagg_flows.command.call import (
    EndpointOption,
    JsonOption,
    command,
    echo_json,
    listed,
    storage_options,
    write_file,
)
from microagg_flows.process import scratch

ReleaseArgument = Annotated[
    str, typer.Argument(help="URL of a release, of an id's folder, of the output or a manifest.")
]
PasswordOption = Annotated[
    str | None, typer.Option("--password-variable", help="Variable of the environment that holds the key's password.")
]


@command("verify", recorded=False)
def verify(
    release: ReleaseArgument,
    endpoint: EndpointOption = None,
    k: Annotated[int | None, typer.Option("--k", help="Demand at least this k.")] = None,
    quasi_identifiers: Annotated[
        str,
        typer.Option("--quasi-identifiers", help="Demand that these columns are such and are counted; with commas."),
    ] = "",
    blocking: Annotated[
        str, typer.Option("--blocking", help="Demand that these are blocking columns and are counted; with commas.")
    ] = "",
    sha256: Annotated[
        str | None, typer.Option("--sha256", help="Demand the manifest with this digest, which the run printed.")
    ] = None,
    rows: Annotated[int | None, typer.Option("--rows", help="Demand this number of records.")] = None,
    public_key: Annotated[
        str | None,
        typer.Option("--public-key", help="Demand a signature by this key of minisign: a file, or its line."),
    ] = None,
    distinct: Annotated[
        str,
        typer.Option("--distinct", help="Demand so many distinct values in every group: COLUMN=NUMBER, with commas."),
    ] = "",
    t: Annotated[
        str, typer.Option("--t", help="Demand t-closeness to the whole release: COLUMN=NUMBER, with commas.")
    ] = "",
    strict: Annotated[
        bool, typer.Option("--strict", help="What is else a note is a failure; so it is where anything is demanded.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a release again from its files alone: checksums, counts, columns, k; and what you demand of it."""
    from microagg_core.release.demands import Demands
    from microagg_core.release.verify import verify as verify_release
    from microagg_flows.command.terminal import show_verification

    demands = Demands(
        k=k,
        quasi_identifiers=tuple(listed(quasi_identifiers)),
        blocking=tuple(listed(blocking)),
        sha256=sha256.strip().lower() if sha256 is not None else None,
        rows=rows,
        public_key=None if public_key is None else _public_key(public_key),
        distinct=_by_column("--distinct", distinct, int),
        t=_by_column("--t", t, float),
        strict=strict,
    )
    with scratch():
        report = verify_release(release, storage_options(endpoint), demands)
    show_verification(report, as_json)
    if not report.passed:
        raise typer.Exit(report.exit_code)


@command("sign", recorded=False)
def sign(
    release: ReleaseArgument,
    key: Annotated[str, typer.Option("--key", help="File of a secret key of minisign.")],
    password_variable: PasswordOption = None,
    endpoint: EndpointOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sign a release that is published, once it is verified; an earlier signature is replaced."""
    from microagg_core.release.signature import read_signing_key, sign_at
    from microagg_core.release.verify import verify as verify_release
    from microagg_core.spec.release import Sign
    from microagg_flows.command.terminal import show_verification

    secret = read_signing_key(Sign(key_file=key, password_variable=password_variable), field="--key")
    with scratch():
        report = verify_release(release, storage_options(endpoint))
        if not report.passed:
            show_verification(report, as_json)
            raise typer.Exit(report.exit_code)
        url = sign_at(release, storage_options(endpoint), secret, report.sha256)
    if as_json:
        document = {"signature": url, "manifest_sha256": report.sha256, "public_key": secret.public.line()}
        echo_json(document)
    else:
        typer.echo(f"signed {report.id} {report.revision} with the key {secret.public.name}: {url}")


@command("keys", recorded=False)
def keys(
    name: Annotated[Path, typer.Argument(help="NAME.key is to be the secret key, NAME.pub the public one.")],
    password_variable: PasswordOption = None,
) -> None:
    """Make a pair of keys for signing releases, as minisign -G does."""
    from microagg_core.release.minisign import SecretKey

    password = None
    if password_variable is not None:
        if password_variable not in os.environ:
            raise SpecError(f"--password-variable: the environment has no {password_variable}; set it to the password")
        password = os.fsencode(os.environ[password_variable])
    key = SecretKey.new()
    secret, public = (name.with_name(f"{name.name}.{ending}") for ending in ("key", "pub"))
    for path, data, rights in ((secret, key.to_bytes(password), 0o600), (public, key.public.to_bytes(), 0o644)):
        try:
            write_file(path, data, rights, os.O_EXCL)
        except FileExistsError:
            raise SpecError(
                f"{path} exists already; choose another name, as who lost a key cannot sign with it again"
            ) from None
        except OSError as error:
            raise SpecError(f"{path} cannot be written ({error.strerror}); choose another place") from None
    typer.echo(
        f"wrote {secret} (keep it secret) and {public}\nreceivers: microagg verify URL --public-key {key.public.line()}"
    )


def _by_column(option: str, text: str, number: type[int] | type[float]) -> dict[str, Any]:
    """Read a number for each column, from COLUMN=NUMBER with commas."""
    demanded: dict[str, Any] = {}
    for entry in listed(text):
        column, _, value = entry.rpartition("=")
        if column in demanded:
            raise SpecError(f"{option}: {column!r} is there twice; name it once")
        try:
            demanded[column] = number(value)
        except ValueError:
            raise SpecError(f"{option}: {entry!r} is not COLUMN=NUMBER; write it so") from None
    return demanded


def _public_key(text: str) -> Any:
    """Read a public key, given as its line or as the file that holds it."""
    from microagg_core.release.minisign import MOST_BYTES, PublicKey

    path = Path(text)
    try:
        return PublicKey.parse(text)
    except ValueError as error:
        if "/" not in text and not path.exists():
            raise SpecError(
                f"--public-key: {text!r} {error}, and no file either; give the line that starts with RW"
            ) from None
    try:
        if not path.is_file():
            raise SpecError(f"--public-key: {text} is not a file; give that of the public key, or its line")
        with path.open("rb") as file:
            return PublicKey.parse(file.read(MOST_BYTES).decode("utf-8", errors="replace"))
    except ValueError as error:
        raise SpecError(f"--public-key: {text} {error}; give NAME.pub, or the line in it that starts with RW") from None
    except OSError as error:
        raise SpecError(f"--public-key: {text} cannot be read ({error.strerror}); check its permissions") from None
