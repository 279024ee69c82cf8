"""Failures of storage: in one sentence for whoever runs the release, and waited for where they pass by themselves.

The libraries' own messages are not passed on: they name endpoints, options and sometimes the content they
choked on. What is kept is the URL, what was being done, and the kind of trouble.
"""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

from microagg_core.errors import MicroaggError, SpecError, StorageError, TransientStorageError
from microagg_core.extras import how_to_install
from microagg_core.store.urls import is_local, shown

_NO_CREDENTIALS = {
    "NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "ProfileNotFound",
    "TokenRetrievalError", "UnauthorizedSSOTokenError", "SSOTokenLoadError",
}  # fmt: skip
NO_ANSWER = {
    "EndpointConnectionError", "ConnectionClosedError", "ConnectTimeoutError", "ReadTimeoutError",
    "HTTPClientError", "ProxyConnectionError", "ResponseStreamingError", "IncompleteReadError",
    "ClientConnectorError", "ClientPayloadError", "ServerDisconnectedError", "ResponseParserError", "FSTimeoutError",
}  # fmt: skip
BUSY_CODES = {
    "SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "OperationAborted",
    "ConditionalRequestConflict", "ServerBusy", "OperationTimedOut", "409", "429", "500", "502", "503", "504",
}  # fmt: skip
_BAD_CREDENTIALS = {
    "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired",
    "AuthorizationHeaderMalformed", "AuthenticationFailed", "InvalidAuthenticationInfo", "401",
}  # fmt: skip
#: What an object store calls it when credentials are good and something is not for them.
DENIED = {"AccessDenied", "AuthorizationFailure", "AuthorizationPermissionMismatch", "403"}
NO_BUCKET = {"NoSuchBucket", "InvalidBucketName", "ContainerNotFound"}
#: What has to be granted for a request. That an object is missing, S3 tells those alone who may list.
_ACTIONS = {
    "GetObject": "s3:GetObject and s3:ListBucket", "HeadObject": "s3:GetObject and s3:ListBucket",
    "HeadBucket": "s3:ListBucket", "ListObjectsV2": "s3:ListBucket", "ListObjectVersions": "s3:ListBucketVersions",
    "PutObject": "s3:PutObject", "CreateMultipartUpload": "s3:PutObject", "UploadPart": "s3:PutObject",
    "CompleteMultipartUpload": "s3:PutObject", "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "DeleteObject": "s3:DeleteObject", "DeleteObjects": "s3:DeleteObject",
}  # fmt: skip
_FULL = {errno.ENOSPC, errno.EDQUOT}
S3_SCHEMES = ("s3://", "s3a://")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
_LIBRARIES = ("botocore", "aiobotocore", "aiohttp", "s3fs", "fsspec", "gcsfs", "adlfs", "azure", "google")


class AnswerError(OSError):
    """Error of a store's answer, in the form of botocore's: what was asked, and the answer's code."""

    def __init__(self, operation: str, code: str) -> None:
        super().__init__("the store refused a request")
        self.operation_name = operation
        self.response = {"Error": {"Code": code}}


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def service_code(error: BaseException) -> str | None:
    """Find the code that an object store's answer carried ('NoSuchBucket', '403', ...)."""
    for link in _chain(error):
        response: Any = getattr(link, "response", None)
        if isinstance(response, dict) and isinstance(response.get("Error"), dict):
            code = response["Error"].get("Code")
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            return str(code or status or "") or None
    return None


def if_there(request: Callable[[], T]) -> T | None:
    """Make a request about an object; None where that is missing, while a missing bucket is an error."""
    try:
        return request()
    except FileNotFoundError as error:
        if service_code(error) in NO_BUCKET:
            raise
        return None


def _named(error: BaseException, names: set[str]) -> bool:
    return any(base.__name__ in names for link in _chain(error) for base in type(link).__mro__)


def _of_the_store(error: BaseException, code: str | None, where: str) -> StorageError | None:
    if _named(error, _NO_CREDENTIALS):
        return StorageError(
            f"{where}: no usable credentials were found; give them to every worker by its environment, profile or role"
        )
    if code in _BAD_CREDENTIALS:
        return StorageError(
            f"{where}: the store refused the credentials ({code}); "
            "check those in the environment, profile or role of every worker"
        )
    if code in DENIED:
        names = (getattr(link, "operation_name", None) for link in _chain(error))
        action = next((f"; it takes {_ACTIONS[name]}" for name in names if name in _ACTIONS and "s3" in where), "")
        return StorageError(
            f"{where}: access was denied; check the credentials of every worker and what they may do{action}"
        )
    if code in NO_BUCKET:
        return StorageError(f"{where}: there is no such bucket; create it or correct the URL")
    if code in BUSY_CODES or _named(error, NO_ANSWER) or isinstance(error, (ConnectionError, TimeoutError)):
        return TransientStorageError(
            f"{where}: the store did not answer properly{f' ({code})' if code else ''}; "
            "check its endpoint and the network, then run again"
        )
    return None


def _of_any(error: BaseException, where: str, local: bool) -> StorageError | None:
    if isinstance(error, FileNotFoundError):
        missing = "it does not exist" if local else "it does not exist, or its bucket does not"
        return StorageError(f"{where}: {missing}; check the URL")
    if isinstance(error, PermissionError):
        rights = "the rights of this user" if local else "the credentials of every worker and what they may do"
        return StorageError(f"{where}: access was denied; check {rights}")
    if isinstance(error, (IsADirectoryError, NotADirectoryError, FileExistsError)):
        return StorageError(
            f"{where}: a file stands where a folder is needed, or a folder where a file is; check the URL"
        )
    number = getattr(error, "errno", None)
    if number in _FULL and not local:
        # A remote store has codes for this; the system's number is about a copy on this machine.
        return StorageError(f"{where}: no space is left in the temporary folder here; free some, or set TMPDIR")
    if number in _FULL:
        return StorageError(f"{where}: no space is left there; free some, then run again")
    if number == errno.EROFS:
        return StorageError(f"{where}: the file system is read-only; choose another place")
    if number == errno.ENAMETOOLONG:
        return StorageError(f"{where}: the path is too long for the file system; choose a shorter URL")
    return None


def explained(error: Exception, url: str, doing: str) -> MicroaggError | None:
    """Make one sentence of an exception about storage; None where it is about something else.

    >>> explained(FileNotFoundError(2, "secret"), "/data/x", "reading").message
    'reading /data/x: it does not exist; check the URL'
    """
    if isinstance(error, MicroaggError):
        return error
    where = f"{doing} {shown(url)}"
    if isinstance(error, ImportError):
        package = f" ({error.name})" if error.name else ""
        return SpecError(
            f"{where}: the package that opens this kind of URL is not installed{package}; "
            + (how_to_install("s3") if url.startswith(S3_SCHEMES) else "install it wherever the release is made")
        )
    if isinstance(error, TypeError) and "unexpected keyword" in str(error):
        # Some file systems look at their options only when the first request is made.
        return SpecError(f"{where}: the file system does not know one of its storage options; correct them")
    local = is_local(url)
    if isinstance(error, ValueError) and str(error).startswith("Invalid endpoint"):
        return StorageError(
            f"{where}: the store's endpoint is no URL; begin it with https:// or http://, in AWS_ENDPOINT_URL, the "
            "profile or the storage options"
        )
    code = service_code(error)
    trouble = None if local else _of_the_store(error, code, where)
    trouble = trouble or _of_any(error, where, local)
    if trouble is not None:
        return trouble
    if isinstance(error, OSError) or type(error).__module__.split(".")[0] in _LIBRARIES:
        detail = code or errno.errorcode.get(getattr(error, "errno", None) or 0) or type(error).__name__
        return StorageError(f"{where}: the store refused it ({detail}); check the URL and the storage options")
    return None


@contextmanager
def explaining(url: str, doing: str) -> Iterator[None]:
    """Run a block that touches storage; what it raises about storage comes out as one sentence."""
    try:
        yield
    except Exception as error:
        better = explained(error, url, doing)
        if better is None:
            raise
        raise better from None


#: A store that restarts, fails over or throttles is back within a minute; half as long again is for the slow.
PATIENCE_SECONDS = 90.0
#: The pause doubles up to the longest; each is shortened by up to half, so that workers do not all ask at once.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 5.0
#: Whoever was interrupted puts work away, and for as long as that may take a store is not waited for.
_HURRY_SECONDS = 60.0

_clock, _sleep = time.monotonic, time.sleep
_is_impatient: ContextVar[bool] = ContextVar("is_impatient", default=False)
_hurried_until = 0.0


@contextmanager
def impatient() -> Iterator[None]:
    """Ask a store once in this block: for what is not worth a wait, or is waited for around it."""
    token = _is_impatient.set(True)
    try:
        yield
    finally:
        _is_impatient.reset(token)


def ask(request: Callable[[], T], url: str) -> T:
    """Repeat a request while the store does not answer it and patience lasts.

    Only troubles that pass by themselves are waited for. A bucket that is not there, credentials that are refused and
    whatever a disk says are told at once.
    """
    global _hurried_until
    begun, pause = _clock(), _FIRST_PAUSE_SECONDS
    waits = not _is_impatient.get()
    try:
        while True:
            try:
                with impatient():  # a request within this one: it is this one that is made again
                    return request()
            except Exception as error:
                left = begun + PATIENCE_SECONDS - _clock()
                if not waits or left <= 0 or _clock() < _hurried_until:
                    raise
                if not isinstance(explained(error, url, "asking"), TransientStorageError):
                    raise
            _sleep(min(pause * random.uniform(0.5, 1.0), left))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
    except Exception:
        raise
    except BaseException:  # Ctrl-C and the like
        _hurried_until = _clock() + _HURRY_SECONDS
        raise


def patient(method: F) -> F:
    @wraps(method)
    def asked(store: Any, *args: Any, **named: Any) -> Any:
        return ask(lambda: method(store, *args, **named), store.url)

    return asked  # type: ignore[return-value]
