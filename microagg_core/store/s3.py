"""Removal for good of objects in buckets of S3, by botocore's client."""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from microagg_core.errors import StorageError
from microagg_core.store.connections import Bucket
from microagg_core.store.failures import BUSY_CODES, DENIED, AnswerError, service_code

T = TypeVar("T")
Key = str
#: Keys, or a key and a version of it, as S3's request names them.
Objects = Sequence[dict[str, str]]

#: What S3 takes in one request.
AT_ONCE = 1000
_REQUESTS_AT_ONCE = 4
#: Stores with neither versions nor a listing of them, some of which name a version all the same.
_NO_SUCH_REQUEST = {"NotImplemented", "MethodNotAllowed", "501", "405"}
_MISSING = {"NoSuchKey", "404"}


@dataclass(frozen=True)
class Removal:
    """Removal of objects below one place of a bucket.

    A bucket may keep what is removed or written over as a version that no listing shows, for as long as its owner
    likes. Rows that are to go would stay there, so the versions go too. Whether a bucket does so is read from its
    answers about objects, which whoever may read and remove objects gets: no right to ask for a bucket's settings is
    needed.
    """

    bucket: Bucket
    #: The place as it may stand in a message.
    shown: str

    def _ask(self, operation: str, **parameters: Any) -> dict[str, Any]:
        answer: dict[str, Any] = getattr(self.bucket.client, operation)(**self.bucket.arguments, **parameters)
        return answer

    def remove(self, keys: Sequence[Key]) -> None:
        # Where the versions are removed first, no process that dies leaves any that a listing hides.
        keys = sorted(keys)
        kept = keys if keys and self._keeps_versions(keys[0]) else self._remove([{"Key": key} for key in keys])
        if kept:
            self._remove_versions(kept)

    def remove_below(self, folder: Key, keys: Sequence[Key]) -> None:
        """Remove all that is below a folder, where these objects are listed, with the versions of others."""
        if keys and self._keeps_versions(keys[0]):
            self._remove_versions(keys, folder)
        else:
            self.remove(keys)

    def _keeps_versions(self, key: Key) -> bool:
        """Say whether an object has a version; False for one that is missing, as the bucket then says nothing."""
        from botocore.exceptions import ClientError

        try:
            return bool(self._ask("head_object", Key=key).get("VersionId"))
        except ClientError as error:
            if service_code(error) in _MISSING:
                return False
            raise

    def _remove(self, objects: Objects) -> list[Key]:
        """Remove objects; returns the keys, sorted, of those that the bucket has only hidden."""
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
            return sorted(key for hidden in pool.map(self._remove_batch, _batches(objects)) for key in hidden)

    def _remove_batch(self, objects: Objects) -> list[Key]:
        """Remove objects by one request; where a busy store leaves some out, it has failed, and is asked again."""
        answer = self._ask("delete_objects", Delete={"Objects": objects})
        codes = [entry.get("Code", "") for entry in answer.get("Errors", [])]
        if codes:
            raise AnswerError("DeleteObjects", next((code for code in codes if code not in BUSY_CODES), codes[0]))
        return [entry["Key"] for entry in answer.get("Deleted", []) if entry.get("DeleteMarker")]

    def _remove_versions(self, keys: Sequence[Key], folder: Key | None = None) -> None:
        """Remove all versions of these keys, and marks of their removal; with a folder, of all that is below it."""
        from botocore.exceptions import ClientError

        wanted = set(keys)
        # A prefix of characters, as S3 has it.
        prefix = os.path.commonprefix([min(keys), max(keys)]) if folder is None else folder  # noqa: RUF071
        try:
            # All of them are listed before any is removed: some stores cannot go on from a version that is gone.
            self._remove([entry for entry in self._versions(prefix) if folder is not None or entry["Key"] in wanted])
        except (ClientError, AnswerError) as error:
            code = service_code(error)
            if code in DENIED:
                raise StorageError(
                    f"{self.shown}: this bucket keeps versions of what is removed, and these credentials may not "
                    "remove them (s3:ListBucketVersions, s3:DeleteObjectVersion); allow both there, or use a bucket "
                    "without versioning"
                ) from None
            if code not in _NO_SUCH_REQUEST:
                raise
            self._remove([{"Key": key} for key in keys])

    def _versions(self, prefix: Key) -> Iterator[dict[str, str]]:
        where: dict[str, str] = {}
        while True:
            page = self._ask("list_object_versions", Prefix=prefix, **where)
            listed = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
            yield from ({"Key": entry["Key"], "VersionId": entry["VersionId"]} for entry in listed)
            if not page.get("IsTruncated"):
                return
            where = {"KeyMarker": page["NextKeyMarker"]}
            if page.get("NextVersionIdMarker"):
                where["VersionIdMarker"] = page["NextVersionIdMarker"]


def _batches(many: Sequence[T]) -> list[Sequence[T]]:
    return [many[i : i + AT_ONCE] for i in range(0, len(many), AT_ONCE)]
