"""The signature of a release: a file beside the manifest, which names the digests of all else.

Publishing writes it before the manifest, so a reader who finds the release finds it signed. The file is created, not
replaced, as a rival may be about to publish with another; whoever then has published puts his own in its place, and so
does each later run that finds it wrong. A signature is made of manifest and key alone, so to write it twice is to write
the same. One that belongs to no manifest says nothing, and is left to the next publication.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from microagg_core.errors import SpecError, StorageError
from microagg_core.inspect.check import Check
from microagg_core.release.manifest import Manifest
from microagg_core.release.minisign import PublicKey, SecretKey, Signature, shown_id
from microagg_core.release.revisions import ReleaseAtHand, read_release
from microagg_core.spec.release import Sign
from microagg_core.store.disk import read_private
from microagg_core.store.layout import SIGNATURE
from microagg_core.store.objects import Standing, Store, standing_of
from microagg_core.store.urls import shown

_KEY_CURE = "make a key with microagg keys, or with minisign -G"


def read_signing_key(sign: Sign, environ: Mapping[str, str] = os.environ, field: str = "output.sign") -> SecretKey:
    """Read the secret key that a spec names, opened with the password that the environment holds."""
    data = read_private(sign.key_file, f"{field}.key_file" if field == "output.sign" else field, _KEY_CURE)
    password = None if sign.password_variable is None else environ.get(sign.password_variable)
    if sign.password_variable is not None and password is None:
        raise SpecError(f"{field}: the environment has no {sign.password_variable}; set it to the key's password")
    try:
        return SecretKey.parse(data, None if password is None else os.fsencode(password))
    except ValueError as error:
        raise SpecError(f"{field}: {sign.key_file} {error}{_advice(str(error))}") from None


def _advice(reason: str) -> str:
    if reason == "needs a password":
        return "; name in password_variable the variable of the environment that holds it"
    return "; set the right one" if "password" in reason and "memory" not in reason else f"; {_KEY_CURE}"


def signature_of(manifest: Manifest, data: bytes, key: SecretKey) -> bytes:
    return key.sign(data, f"microagg release {manifest.id} {manifest.revision}")


def sign_before(output: Store, manifest: Manifest, key: SecretKey) -> None:
    """Put the signature of a manifest that is about to be published where it belongs, if nothing is there."""
    output.create(manifest.layout.signature(), signature_of(manifest, manifest.to_bytes(), key))


def sign_published(output: Store, manifest: Manifest, key: SecretKey, *, keeps_others: bool) -> tuple[str, ...]:
    """Give a published manifest its signature; one by another key stays, if others are kept; returns warnings."""
    name, layout = manifest.layout.signature(), manifest.layout
    signature = signature_of(manifest, output.read(layout.manifest()), key)
    present = output.read_if_there(name)
    other = _key_of(present)
    if keeps_others and other is not None and other != key.key_id:
        ids = f"the key {shown_id(other)}, not with {shown_id(key.key_id)}"
        return (f"{layout.folder} is signed with {ids}: microagg sign replaces that",)
    if present != signature:
        output.put(name, signature, durable=True)
    return ()


def sign_at(url: str, storage_options: dict[str, Any], key: SecretKey, sha256: str) -> str:
    """Sign the release at a URL, whose manifest has this digest; returns the URL of the signature."""
    release = read_release(url, storage_options, follow_links=False)
    if release.sha256 != sha256:
        raise StorageError(f"{shown(release.folder.url)} changed while it was verified; sign again")
    release.folder.put(SIGNATURE, signature_of(release.manifest, release.data, key), durable=True)
    return shown(release.folder.url_of(SIGNATURE))


def _key_of(data: bytes | None) -> bytes | None:
    try:
        return None if data is None else Signature.parse(data).key_id
    except ValueError:
        return None


def signature_check(release: ReleaseAtHand, key: PublicKey) -> Check:
    name = "signature"
    standing = standing_of(release.folder, SIGNATURE)
    if standing is Standing.MISSING:
        return Check(name, False, f"the release is not signed: there is no {SIGNATURE}")
    if standing not in (Standing.FILE, Standing.SHARED):
        return Check(name, False, f"{SIGNATURE} is a link or no file at all")
    try:
        signature = Signature.parse(release.folder.read(SIGNATURE))
    except ValueError as error:
        return Check(name, False, f"{SIGNATURE} {error}")
    if reason := key.refuses(release.data, signature):
        return Check(name, False, f"{SIGNATURE} {reason}")
    return Check(name, True, f"by the key {key.name}, over the whole manifest")
