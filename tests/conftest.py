"""Fixtures for all tests."""

from eleven_companies import companies
from s3_server import _moto_session, moto_server, s3_bucket, s3_environment, s3_server, storage_place
from small_release import output, work

__all__ = [
    "_moto_session",
    "companies",
    "moto_server",
    "output",
    "s3_bucket",
    "s3_environment",
    "s3_server",
    "storage_place",
    "work",
]
