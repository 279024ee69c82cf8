"""Keys and signatures in the format of minisign: Ed25519 over a BLAKE2b digest, with a comment that is signed too.

Whoever has the program minisign can check what is signed here, and sign what is checked here. The arithmetic is that of
the package cryptography; this module knows how the files are written. Reasons that it gives start with a verb, for the
sentence of a caller who knows what the file is called.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from microagg_core.extras import needing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

# By hand and not by py-minisign: the arithmetic is cryptography's, the rest two small file formats, of which keys of
# small order, the old kind of signature and passwords that cost too much memory are refused here.
_KEY, _PREHASHED, _SCRYPT, _NO_PASSWORD, _BLAKE2 = b"Ed", b"ED", b"Sc", b"\0\0", b"B2"
_ID_BYTES, _SEED_BYTES, _SIGNATURE_BYTES, _SALT_BYTES = 8, 32, 64, 32
#: The field of Ed25519, and the second coordinates of its eight points of small order: by such a key anybody signs.
_FIELD = 2**255 - 19
_ORDER_8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL_ORDER = {0, 1, _FIELD - 1, _ORDER_8, _FIELD - _ORDER_8}
_UNTRUSTED, _TRUSTED = "untrusted comment: ", "trusted comment: "
#: What minisign itself takes to turn a password into a key: work, and bytes of memory.
PASSWORD_COST = (2**25, 2**30)
#: A key that asks for more memory than minisign ever does is damaged.
_MOST_PASSWORD_BYTES = 2**30
#: Files of keys and signatures have two or four short lines; what is longer is none.
MOST_BYTES = 8192


@dataclass(frozen=True)
class Signature:
    key_id: bytes
    signature: bytes
    comment: str
    #: Over the signature and the trusted comment.
    comment_signature: bytes

    @classmethod
    def parse(cls, data: bytes) -> Signature:
        """Read a signature file.

        Raises:
            ValueError: it is none, or of a kind that is not taken; the reason starts with a verb.

        >>> Signature.parse(b"hello")
        Traceback (most recent call last):
        ValueError: is not a signature of minisign
        """
        trouble = "is not a signature of minisign"
        lines = _lines(data, 4, trouble)
        if not (lines[0].startswith(_UNTRUSTED) and lines[2].startswith(_TRUSTED)):
            raise ValueError(trouble)
        first = _decoded(lines[1], 2 + _ID_BYTES + _SIGNATURE_BYTES, trouble)
        if first.startswith(_KEY):
            raise ValueError("is a signature of minisign's old kind (-l), which is not taken; sign again without -l")
        if not first.startswith(_PREHASHED):
            raise ValueError(trouble)
        comment_signature = _decoded(lines[3], _SIGNATURE_BYTES, trouble)
        return cls(first[2:10], first[10:], lines[2].removeprefix(_TRUSTED), comment_signature)

    def to_bytes(self) -> bytes:
        first = _encoded(_PREHASHED + self.key_id + self.signature)
        lines = (f"{_UNTRUSTED}signature from a microagg release", first, f"{_TRUSTED}{self.comment}")
        return "\n".join((*lines, _encoded(self.comment_signature), "")).encode()


@dataclass(frozen=True)
class PublicKey:
    key_id: bytes
    key: bytes

    @property
    def name(self) -> str:
        """Id of the key as minisign shows it.

        >>> PublicKey.parse("RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3").name
        'E7620F1842B4E81F'
        """
        return shown_id(self.key_id)

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        """Read a public key: the file's two lines, or the second alone.

        Raises:
            ValueError: it is none; the reason starts with a verb.
        """
        trouble = "is not a public key of minisign"
        lines = text.strip().splitlines()
        if len(lines) > 2 or (len(lines) == 2 and not lines[0].startswith(_UNTRUSTED)) or not lines:
            raise ValueError(trouble)
        data = _decoded(lines[-1].strip(), 2 + _ID_BYTES + _SEED_BYTES, trouble)
        if not data.startswith(_KEY):
            raise ValueError(trouble)
        second = int.from_bytes(data[10:], "little") % 2**255  # without the sign of the first
        if second in _SMALL_ORDER or second >= _FIELD:
            raise ValueError("is a key by which anybody can sign; ask who signs for the right one")
        return cls(data[2:10], data[10:])

    def line(self) -> str:
        return _encoded(_KEY + self.key_id + self.key)

    def to_bytes(self) -> bytes:
        return f"{_UNTRUSTED}minisign public key {self.name}\n{self.line()}\n".encode()

    def refuses(self, data: bytes, signature: Signature) -> str | None:
        """Say why the holder of this key did not sign the data; None where he did."""
        if signature.key_id != self.key_id:
            return f"is by the key {shown_id(signature.key_id)}, not by {self.name}"
        if not self._fits(hashlib.blake2b(data).digest(), signature.signature):
            return f"does not fit, by the key {self.name}: it or what is signed was changed"
        if not self._fits(signature.signature + signature.comment.encode(), signature.comment_signature):
            return f"has a trusted comment that the key {self.name} did not sign: it was changed"
        return None

    def _fits(self, data: bytes, signature: bytes) -> bool:
        with needing("sign", "checking a signature"):
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        try:
            Ed25519PublicKey.from_public_bytes(self.key).verify(signature, data)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class SecretKey:
    key_id: bytes
    seed: bytes = field(repr=False)

    @classmethod
    def new(cls) -> SecretKey:
        return cls(os.urandom(_ID_BYTES), os.urandom(_SEED_BYTES))

    @classmethod
    def parse(cls, data: bytes, password: bytes | None) -> SecretKey:
        """Read a file of a secret key; ``password`` is not looked at where it needs none.

        Raises:
            ValueError: it is none, or the password is missing or wrong; the reason starts with a verb.
        """
        trouble = "is not a secret key of minisign"
        lines = _lines(data, 2, trouble)
        whole = _decoded(lines[1], 6 + _SALT_BYTES + 16 + _ID_BYTES + 2 * _SEED_BYTES + 32, trouble)
        algorithm, derivation, checksum, rest = whole[:2], whole[2:4], whole[4:6], whole[6:]
        if (algorithm, checksum) != (_KEY, _BLAKE2) or derivation not in (_SCRYPT, _NO_PASSWORD):
            raise ValueError(trouble)
        salt, cost, content = rest[:_SALT_BYTES], rest[_SALT_BYTES : _SALT_BYTES + 16], rest[_SALT_BYTES + 16 :]
        if derivation == _SCRYPT:
            if password is None:
                raise ValueError("needs a password")
            content = _masked(content, password, salt, (_number(cost[:8]), _number(cost[8:])))
        key_id, seed, public, checked = content[:8], content[8:40], content[40:72], content[72:]
        # minisign leaves the checksum out where there is no password; the public half is there always.
        if derivation == _SCRYPT and not hmac.compare_digest(checked, _checksum(key_id, seed, public)):
            raise ValueError("does not open with this password")
        key = cls(key_id, seed)
        if key.public.key != public:
            raise ValueError(trouble)
        return key

    @property
    def public(self) -> PublicKey:
        return PublicKey(self.key_id, self._private().public_key().public_bytes_raw())

    def sign(self, data: bytes, comment: str) -> bytes:
        """Make the signature file of some data; the same for the same key, data and comment."""
        private = self._private()
        signature = private.sign(hashlib.blake2b(data).digest())
        return Signature(self.key_id, signature, comment, private.sign(signature + comment.encode())).to_bytes()

    def to_bytes(self, password: bytes | None, cost: tuple[int, int] = PASSWORD_COST) -> bytes:
        public = self.public.key
        content = self.key_id + self.seed + public
        if password is None:
            head, content = _KEY + _NO_PASSWORD + _BLAKE2 + bytes(_SALT_BYTES + 16), content + bytes(32)
        else:
            content += _checksum(self.key_id, self.seed, public)
            salt = os.urandom(_SALT_BYTES)
            numbers = b"".join(number.to_bytes(8, "little") for number in cost)
            head = _KEY + _SCRYPT + _BLAKE2 + salt + numbers
            content = _masked(content, password, salt, cost)
        return f"{_UNTRUSTED}minisign secret key\n{_encoded(head + content)}\n".encode()

    def _private(self) -> Ed25519PrivateKey:
        with needing("sign", "a signature"):
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        return Ed25519PrivateKey.from_private_bytes(self.seed)


def shown_id(key_id: bytes) -> str:
    """Write a key's id as minisign shows it: a number, the least byte first in files."""
    return key_id[::-1].hex().upper()


def _lines(data: bytes, count: int, trouble: str) -> list[str]:
    try:
        lines = data.decode().split("\n") if len(data) <= MOST_BYTES else []
    except UnicodeDecodeError:
        raise ValueError(trouble) from None
    lines = [line.removesuffix("\r") for line in (lines[:-1] if lines and not lines[-1] else lines)]
    if len(lines) != count or not lines[0].startswith(_UNTRUSTED):
        raise ValueError(trouble)
    return lines


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str, length: int, trouble: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(trouble) from None
    if len(data) != length:
        raise ValueError(trouble)
    return data


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _checksum(key_id: bytes, seed: bytes, public: bytes) -> bytes:
    return hashlib.blake2b(_KEY + key_id + seed + public, digest_size=32).digest()


def _masked(content: bytes, password: bytes, salt: bytes, cost: tuple[int, int]) -> bytes:
    """Combine content with the stream that a password makes; twice gives the content again."""
    n, p = _scrypt_numbers(*cost)
    if cost[1] > _MOST_PASSWORD_BYTES or p * n > 2**24:
        raise ValueError("is damaged: its password would take more memory than minisign ever asks for")
    try:
        # Beside the table of 1 KiB an entry there are a few more of these.
        stream = hashlib.scrypt(password, salt=salt, n=n, r=8, p=p, maxmem=1024 * (n + p + 32), dklen=len(content))
    except (ValueError, MemoryError):
        raise ValueError("cannot be opened: its password takes up to 1 GiB of memory, which is not there") from None
    return bytes(a ^ b for a, b in zip(content, stream, strict=True))


def _scrypt_numbers(work: int, memory: int) -> tuple[int, int]:
    """Choose scrypt's N and p for r = 8, from the two limits that minisign keeps."""
    work = max(work, 32768)
    if work < memory // 32:
        return _power_above(work // 32 // 2), 1
    n = _power_above(memory // 1024 // 2)
    return n, min(work // 4 // n, 0x3FFFFFFF) // 8


def _power_above(number: int) -> int:
    return max(2, 1 << number.bit_length())
