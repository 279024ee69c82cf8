"""Open buckets: where a URL's bucket is and who asks, by the options that s3fs, gcsfs and adlfs take.

Where a bucket of S3 is and with which credentials it is reached, botocore finds out, as for all tools of AWS: from
environment, profile, SSO and role. Requests are obstore's.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from microagg_core.errors import SpecError
from microagg_core.store.urls import shown

Options = dict[str, Any]

#: An access point of S3 is named by an ARN, which holds a slash.
_URL = re.compile(r"(s3a?|gc?s|az|abfss?)://(arn:[^/]+/[^/]+|[^/]*)/?(.*)", re.DOTALL)
#: Without an answer for so long a request is over; whether it is asked again is up to `ask`.
_SECONDS = {"connect_timeout": 10, "read_timeout": 60, "timeout": 3600}
_S3_SECONDS = {"connect_timeout": 10, "read_timeout": 60}
#: Options of file systems that say how fast they are, or what inputs alone need.
_OF_OTHERS = {
    "access", "block_size", "blocksize", "cache_regions", "cache_timeout", "consistency", "default_block_size",
    "default_cache_type", "default_fill_cache", "default_location", "fixed_upload_size", "listings_expiry_time",
    "max_concurrency", "max_paths", "project", "requests_timeout", "skip_instance_cache", "use_listings_cache",
    "version_aware",
}  # fmt: skip
_S3_REQUESTS = {
    "ServerSideEncryption": "server_side_encryption", "SSEKMSKeyId": "sse_kms_key_id",
    "BucketKeyEnabled": "sse_bucket_key_enabled", "requester_pays": "request_payer", "anon": "skip_signature",
}  # fmt: skip
_S3_KEYS = {
    "aws_access_key_id": "access_key", "aws_secret_access_key": "secret_key", "aws_session_token": "token",
    "username": "access_key", "password": "secret_key",
    "key": "access_key", "secret": "secret_key", "token": "token",
}  # fmt: skip
_S3_CLIENT = {"endpoint_url": "endpoint_url", "use_ssl": "use_ssl"}
_S3 = {"profile", "config_kwargs", "client_kwargs", *_S3_CLIENT, *_S3_KEYS, *_S3_REQUESTS}
_GOOGLE = {"endpoint_url", "token"}
_AZURE_KEYS = {
    "account_name": "account_name", "account_key": "account_key", "sas_token": "sas_key", "client_id": "client_id",
    "client_secret": "client_secret", "tenant_id": "tenant_id", "anon": "skip_signature",
}  # fmt: skip
_AZURE_WORDS = {
    "AccountName": "account_name", "AccountKey": "account_key", "SharedAccessSignature": "sas_key",
    "BlobEndpoint": "endpoint",
}  # fmt: skip
_AZURE = {"connection_string", *_AZURE_KEYS}


@dataclass(frozen=True)
class Bucket:
    """An open bucket: obstore's store of it and, for what that cannot do, botocore's client and its arguments."""

    store: Any
    client: Any = None
    arguments: Options = field(default_factory=dict)


_opened: dict[tuple[str, str, str], Bucket] = {}


def is_bucket(url: str) -> bool:
    """Tell whether a URL lies in a bucket.

    >>> is_bucket("s3://bucket/x"), is_bucket("simplecache::s3://bucket/x"), is_bucket("sftp://host/x")
    (True, False, False)
    """
    return _URL.fullmatch(url) is not None


def open_bucket(url: str, options: Options) -> tuple[Bucket, str]:
    """Find a URL's bucket, which is opened once in a process, and the path in it."""
    from fsspec.config import conf  # which has FSSPEC_S3_KEY and the like from the environment

    scheme, name, path = _URL.fullmatch(url).groups()  # type: ignore[union-attr]
    path = path.rstrip("/")
    if path and {"", ".", ".."} & set(path.split("/")):
        raise SpecError(f"{shown(url)}: between two slashes stands no name; correct the URL, and move what is there")
    if (key := (scheme, name, repr(sorted(options.items())))) not in _opened:
        schemes, known, opening = _FAMILIES[scheme[0]]
        given = {option: value for s in schemes for option, value in conf.get(s, {}).items()} | options
        given |= given.pop("s3_additional_kwargs", {})
        if given.keys() - known - _OF_OTHERS:
            raise SpecError(
                f"{shown(url)}: an output or a work area in a bucket does not know one of its storage options; take it "
                f"out, and set what it is for in the bucket (known: {', '.join(sorted(known))})"
            )
        _opened[key] = opening(name, given)
    return _opened[key], path


def _renamed(options: Options, names: Mapping[str, str]) -> Options:
    return {new: options[old] for old, new in names.items() if old in options}


def _limits(address: str, verify: Any = None, proxies: Mapping[str, str] | None = None) -> Options:
    client: Options = {name: datetime.timedelta(seconds=value) for name, value in _SECONDS.items()}
    if proxy := (proxies or {}).get(address.partition(":")[0]):
        client["proxy_url"] = proxy
    if isinstance(verify, str):
        client["root_certificate"] = Path(verify).read_bytes()
    client |= {"allow_invalid_certificates": verify is False, "allow_http": address.startswith("http://")}
    return {"client_options": client, "retry_config": {"max_retries": 0}}


def _open_s3(name: str, options: Options) -> Bucket:
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.exceptions import PartialCredentialsError
    from botocore.session import Session
    from obstore.store import S3Store

    session = Session(profile=options.get("profile"))
    if keys := _renamed({**options.get("client_kwargs", {}), **options}, _S3_KEYS):
        if not {"access_key", "secret_key"} <= keys.keys():
            raise PartialCredentialsError(provider="storage options", cred_var="key, secret")
        session.set_credentials(**keys)
    special = _renamed(options, _S3_REQUESTS)
    # A signature of version 4 is for one region, whose address it holds.
    version = UNSIGNED if special.get("skip_signature") else "s3v4"
    once = {"signature_version": version, "retries": {"total_max_attempts": 1}}
    config = Config(**{**_S3_SECONDS, **options.get("config_kwargs", {}), **once})
    named = {**_renamed(options, _S3_CLIENT), **options.get("client_kwargs", {})}
    client = session.create_client("s3", config=config, **named)
    region = str(client.meta.region_name).replace("aws-global", "us-east-1")
    if ".amazonaws." in client.meta.endpoint_url:
        region = name.split(":")[3] if name.startswith("arn:") else _region(client, name, region)
        # By the name of a region: else an address is made that is good everywhere, after a redirection.
        regional = Config(s3={"addressing_style": "virtual", **(client.meta.config.s3 or {})})
        client = session.create_client("s3", config=config.merge(regional), **{**named, "region_name": region})
    anywhere = client.generate_presigned_url("get_object", {"Bucket": name, "Key": "key"}).partition("?")[0]
    address = str(anywhere).removesuffix("/key")
    store = S3Store(
        "bucket",  # whose name is in the address, in whatever style that is
        aws_endpoint_url_s3=address,
        virtual_hosted_style_request=True,
        region=region,
        conditional_put="etag",
        checksum_algorithm="sha256",  # which the signature wants anyway, and buckets with locked objects want
        credential_provider=None if version is UNSIGNED else _credentials(session),
        **special,
        **_limits(address, named.get("verify", session.get_config_variable("ca_bundle")), client.meta.config.proxies),
    )
    payer = {"RequestPayer": "requester"} if special.get("request_payer") else {}
    return Bucket(store, client, {"Bucket": name, **payer})


def _region(client: Any, name: str, default: str) -> str:
    """Ask AWS for the region in which a bucket is, which may be another than that of whoever asks."""
    from botocore.exceptions import ClientError

    try:
        answer = client.head_bucket(Bucket=name)
    except ClientError as error:  # whoever may not ask is told all the same
        answer = error.response
    return str(answer["ResponseMetadata"].get("HTTPHeaders", {}).get("x-amz-bucket-region", default))


def _credentials(session: Any) -> Callable[[], Any]:
    found = session.get_credentials()

    def current() -> Options:
        keys = found.get_frozen_credentials()  # which are renewed ten minutes before their end
        end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=10)
        names = {"access_key_id": keys.access_key, "secret_access_key": keys.secret_key, "token": keys.token}
        return {**names, "expires_at": end}

    return current


def _open_google(name: str, options: Options) -> Bucket:
    from obstore.store import GCSStore

    config = _renamed(options, {"endpoint_url": "base_url", "token": "application_credentials"})
    if config.get("application_credentials") in ("anon", "cloud", "google_default"):
        config |= {"skip_signature": config.pop("application_credentials") == "anon"}
    return Bucket(GCSStore(name, **config, **_limits(config.get("base_url", ""))))


def _open_azure(name: str, options: Options) -> Bucket:
    from obstore.store import AzureStore

    container, _, host = name.partition("@")
    words = options.get("connection_string", os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "")).split(";")
    config = _renamed(dict(word.split("=", 1) for word in words if "=" in word), _AZURE_WORDS)
    config |= {"account_name": host.partition(".")[0]} if host else {}
    config |= _renamed(options, _AZURE_KEYS)
    if "account_name" not in config and "AZURE_STORAGE_ACCOUNT_NAME" not in os.environ:
        raise SpecError("a bucket of Azure is in an account: name it in AZURE_STORAGE_ACCOUNT_NAME, or as account_name")
    return Bucket(AzureStore(container, **config, **_limits(config.get("endpoint", ""))))


#: By the first letter of a scheme: whose options in fsspec's configuration count, which are known, who opens it.
_FAMILIES: dict[str, tuple[tuple[str, ...], set[str], Callable[[str, Options], Bucket]]] = {
    "s": (("s3", "s3a"), _S3, _open_s3),
    "g": (("gs", "gcs"), _GOOGLE, _open_google),
    "a": (("abfs", "az", "abfss"), _AZURE, _open_azure),
}
