"""Keys and signatures as the program minisign has them: what it wrote is read, and it reads what is written here."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from microagg_core.errors import SpecError
from microagg_core.release.minisign import PublicKey, SecretKey, Signature
from microagg_core.release.signature import read_signing_key
from microagg_core.spec.release import Sign

#: Written by minisign 0.11: a pair of keys without a password, and what it signed with them.
SECRET = b"""untrusted comment: minisign encrypted secret key
RWQAAEIyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAuN3pWTjwztdJFaxXZnEb33wpk0eoiRAYhlcDyxLeNSii\
eeU5vlCKzmgt3XS4tOl8XCk6AeL3knPw3VsLMZlsRfU3bMObfYQhAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
"""
PUBLIC = "RWS43elZOPDO12gt3XS4tOl8XCk6AeL3knPw3VsLMZlsRfU3bMObfYQh"
SIGNED = b"a release"
SIGNATURE = b"""untrusted comment: signature from minisign secret key
RUS43elZOPDO17X/tK2oCaackqb9IN5UAEftbV7VhD0Tghazp8aToqFXekJvXIPfDiu5ZEnnCU0Jq1lRSnI3axXwcgsjVovK/wA=
trusted comment: by hand
EDdGvGFa+3/Fv076PuHZYaWnsiJl69pWdupJ39uKPj/QBxmkZelwc10xm7ErQFFbMLTuU/nJ/BAiewRzmyQnDw==
"""
OLD_KIND = b"""untrusted comment: signature from minisign secret key
RWS43elZOPDO130LfH0oiVpRjeZ7ZxTIAVo4W8ZIJEfOXO0T364nNyOxLLTkWSHtHbbZ2/YxMUhKjrGw2xdh97/6foKyOTMD/wE=
trusted comment: by hand
YWEXylsBilHDlGVS3rd6YBFSBnHFHi26KLiyE6isabynIaKb/3yzqZ4V4C7mqGhFcLqJ2JALpW/MWj6uvIcCDA==
"""
#: A password that costs nothing, for tests.
CHEAP = (2**15, 2**24)


def test_what_minisign_signed_is_taken() -> None:
    key = PublicKey.parse(PUBLIC)
    assert key.name == "D7CEF03859E9DDB8" and key == SecretKey.parse(SECRET, None).public
    assert PublicKey.parse(key.to_bytes().decode()) == key and key.line() == PUBLIC
    assert key.refuses(SIGNED, Signature.parse(SIGNATURE)) is None
    assert key.refuses(SIGNED, Signature.parse(SIGNATURE.replace(b"\n", b"\r\n"))) is None


#: Ed25519: its field, the order of its base point, its constant; points as (x, y).
P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
Point = tuple[int, int]


def added(a: Point, b: Point) -> Point:
    (x1, y1), (x2, y2) = a, b
    t = D * x1 * x2 * y1 * y2
    return (x1 * y2 + x2 * y1) * pow(1 + t, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - t, -1, P) % P


def times(n: int, point: Point) -> Point:
    total = (0, 1)
    for bit in f"{n:b}":
        total = added(total, total)
        total = added(total, point) if bit == "1" else total
    return total


def point_at(y: int) -> Point | None:
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    for root in (pow(square, (P + 3) // 8, P), pow(square, (P + 3) // 8, P) * pow(2, (P - 1) // 4, P) % P):
        if root * root % P == square:
            return (root if root % 2 == 0 else P - root), y
    return None


def encodings(x: int, y: int) -> list[bytes]:
    """All that decode to a point: with y beyond the field, and a sign where x is 0, too."""
    signs = (0, 1) if x == 0 else (x % 2,)
    return [(v + (s << 255)).to_bytes(32, "little") for v in (y, y + P) if v < 2**255 for s in signs]


def test_a_key_by_which_anybody_signs_is_refused() -> None:
    """Multiples of a point that the base's order leaves are the points of small order; forgeries fit their keys."""
    points = (point_at(y) for y in range(2, 99))
    eighth = next(q for q in (times(L, p) for p in points if p) if times(4, q) != (0, 1))
    torsion = {times(n, eighth) for n in range(8)}
    assert len(torsion) == 8
    base, data = point_at(4 * pow(5, -1, P) % P), b"forged"
    forged = 0
    for point in torsion:
        for key in encodings(*point):
            for s in range(1, 40):
                x, y = times(s, base)
                signature = (y + ((x % 2) << 255)).to_bytes(32, "little") + s.to_bytes(32, "little")
                if int.from_bytes(hashlib.sha512(signature[:32] + key + data).digest(), "little") % L % 8 == 0:
                    break
            forged += PublicKey(b"\0" * 8, key)._fits(data, signature)
            with pytest.raises(ValueError, match="anybody can sign"):
                PublicKey.parse(PublicKey(b"\0" * 8, key).line())
    assert forged >= 8
    for canonical in (PUBLIC, SecretKey.new().public.line()):
        assert PublicKey.parse(canonical)


def test_the_same_is_signed_the_same_as_minisign_does() -> None:
    ours = Signature.parse(SecretKey.parse(SECRET, None).sign(SIGNED, "by hand"))
    assert ours == Signature.parse(SIGNATURE)


@pytest.mark.parametrize(
    ("signed", "signature", "reason"),
    [
        (b"a release.", SIGNATURE, "does not fit, by the key D7CEF03859E9DDB8"),
        (SIGNED, SIGNATURE.replace(b"X/tK", b"X/tL"), "does not fit, by the key D7CEF03859E9DDB8"),
        (SIGNED, SIGNATURE.replace(b"by hand", b"by foot"), "has a trusted comment that the key D7CEF03859E9DDB8 did"),
        (SIGNED, SIGNATURE.replace(b"EDdG", b"EDdH"), "has a trusted comment"),
        (SIGNED, SecretKey.new().sign(SIGNED, ""), r"is by the key [0-9A-F]{16}, not by D7CEF03859E9DDB8"),
    ],
    ids=["data", "signature", "comment", "signature of the comment", "another key"],
)
def test_what_was_changed_is_refused(signed: bytes, signature: bytes, reason: str) -> None:
    said = PublicKey.parse(PUBLIC).refuses(signed, Signature.parse(signature))
    assert said is not None and re.match(reason, said)


def test_a_key_of_the_same_name_is_another_key() -> None:
    """Whoever forges a signature gives it the name that is expected."""
    forged = replace(SecretKey.new(), key_id=PublicKey.parse(PUBLIC).key_id).sign(SIGNED, "by hand")
    said = PublicKey.parse(PUBLIC).refuses(SIGNED, Signature.parse(forged))
    assert said is not None and said.startswith("does not fit")


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"hello", SIGNATURE[:-30], SIGNATURE + b"x\n", SIGNATURE * 200, b"\xff" * 10, SECRET,
     SIGNATURE.replace(b"trusted", b"t"), SIGNATURE.replace(b"RUS4", b"RUS!"), SIGNATURE.replace(b"RUS4", b"AAS4")],
)  # fmt: skip
def test_what_is_no_signature(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^is not a signature of minisign$"):
        Signature.parse(data)


def test_a_signature_of_the_old_kind_is_not_taken() -> None:
    with pytest.raises(ValueError, match="old kind"):
        Signature.parse(OLD_KIND)


@pytest.mark.parametrize("text", ["", "RW", PUBLIC[:-4], "AA" + PUBLIC[2:], f"x\n{PUBLIC}", f"a\nb\n{PUBLIC}", "é"])
def test_what_is_no_public_key(text: str) -> None:
    with pytest.raises(ValueError, match=r"^is not a public key of minisign$"):
        PublicKey.parse(text)


def test_a_secret_key_under_a_password() -> None:
    key = SecretKey.new()
    data = key.to_bytes(b"right", CHEAP)
    assert SecretKey.parse(data, b"right") == key
    assert key.seed not in base64.b64decode(data.splitlines()[1]) and "seed" not in repr(key)
    with pytest.raises(ValueError, match=r"^does not open with this password$"):
        SecretKey.parse(data, b"wrong")
    with pytest.raises(ValueError, match=r"^needs a password$"):
        SecretKey.parse(data, None)


def with_bytes(secret: bytes, place: int, data: bytes) -> bytes:
    """A secret key's file with other bytes in one place."""
    comment, line = secret.splitlines()
    whole = bytearray(base64.b64decode(line))
    whole[place : place + len(data)] = data
    return comment + b"\n" + base64.b64encode(whole) + b"\n"


def test_a_key_does_not_have_its_reader_take_a_terabyte() -> None:
    greedy = with_bytes(SecretKey.new().to_bytes(b"right", CHEAP), 46, (2**40).to_bytes(8, "little"))
    with pytest.raises(ValueError, match="more memory than minisign ever asks for"):
        SecretKey.parse(greedy, b"right")


@pytest.mark.parametrize("place", [1, 2, 5, 70, 100], ids=["algorithm", "password", "checksum", "secret", "public"])
def test_a_damaged_secret_key_is_none(place: int) -> None:
    with pytest.raises(ValueError, match=r"^is not a secret key of minisign$"):
        SecretKey.parse(with_bytes(SECRET, place, b"?"), None)


def keep(folder: Path, data: bytes, rights: int = 0o600) -> Sign:
    path = folder / "release.key"
    path.write_bytes(data)
    path.chmod(rights)
    return Sign(key_file=str(path), password_variable="SIGNING_PASSWORD" if b"encrypted" not in data else None)


def test_the_key_of_a_spec_is_read(tmp_path: Path) -> None:
    assert read_signing_key(keep(tmp_path, SECRET)) == SecretKey.parse(SECRET, None)
    key = SecretKey.new()
    environ = {"SIGNING_PASSWORD": "right"}
    assert read_signing_key(keep(tmp_path, key.to_bytes(b"right", CHEAP)), environ) == key


@pytest.mark.parametrize(
    ("data", "rights", "environ", "sentence"),
    [
        (SECRET, 0o640, {}, "output.sign.key_file: others can read .*; chmod 600"),
        (SECRET, 0o604, {}, "output.sign.key_file: others can read"),
        (b"", 0o600, {}, "output.sign.key_file: .* is empty; make a key with microagg keys"),
        (PUBLIC.encode(), 0o600, {"SIGNING_PASSWORD": ""}, "output.sign: .* is not a secret key of minisign; make a"),
        (SecretKey.new().to_bytes(b"right", CHEAP), 0o600, {}, "the environment has no SIGNING_PASSWORD; set it"),
        (SecretKey.new().to_bytes(b"right", CHEAP), 0o600, {"SIGNING_PASSWORD": "canary"},
         "output.sign: .* does not open with this password; set the right one"),
    ],
)  # fmt: skip
def test_a_key_that_cannot_sign_is_one_sentence(
    data: bytes, rights: int, environ: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=sentence) as refused:
        read_signing_key(keep(tmp_path, data, rights), environ)
    assert "canary" not in refused.value.message


def test_a_key_under_a_password_without_one(tmp_path: Path) -> None:
    path = tmp_path / "release.key"
    path.write_bytes(SecretKey.new().to_bytes(b"right", CHEAP))
    path.chmod(0o600)
    with pytest.raises(SpecError, match="needs a password; name in password_variable the variable"):
        read_signing_key(Sign(key_file=str(path)))
    with pytest.raises(SpecError, match=r"there is no file .*; make a key with microagg keys, or with minisign -G"):
        read_signing_key(Sign(key_file=str(tmp_path / "none")))


# --- The program itself ----------------------------------------------------------------------------------------


def minisign(*arguments: str, said: str = "") -> subprocess.CompletedProcess[str]:
    program = shutil.which("minisign")
    if program is None:
        pytest.skip("minisign is not installed (Debian: apt install minisign)")
    return subprocess.run([program, *arguments], input=said, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("password", ["", "right"])
def test_minisign_takes_what_is_signed_here(password: str, tmp_path: Path) -> None:
    """With a key of ours, which it signs with as well."""
    key = SecretKey.new()
    files = {name: str(tmp_path / name) for name in ("key", "pub", "data", "data.minisig")}
    Path(files["key"]).write_bytes(key.to_bytes(password.encode() if password else None, CHEAP))
    Path(files["pub"]).write_bytes(key.public.to_bytes())
    Path(files["data"]).write_bytes(SIGNED)
    Path(files["data.minisig"]).write_bytes(key.sign(SIGNED, "by us"))
    taken = minisign("-V", "-p", files["pub"], "-m", files["data"])
    assert taken.returncode == 0 and "Trusted comment: by us" in taken.stdout, taken.stderr
    assert minisign("-V", "-P", key.public.line(), "-m", files["data"]).returncode == 0
    signed = minisign("-S", "-s", files["key"], "-m", files["data"], said=f"{password}\n")
    assert signed.returncode == 0, signed.stderr
    assert key.public.refuses(SIGNED, Signature.parse(Path(files["data.minisig"]).read_bytes())) is None


@pytest.mark.slow("minisign's own passwords take a GiB and seconds, by design")
def test_a_key_that_minisign_made_opens_here(tmp_path: Path) -> None:
    secret, public = tmp_path / "key", tmp_path / "pub"
    assert minisign("-G", "-s", str(secret), "-p", str(public), said="right\nright\n").returncode == 0
    key = SecretKey.parse(secret.read_bytes(), b"right")
    assert key.public == PublicKey.parse(public.read_text())
