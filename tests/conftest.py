"""Fixtures for all tests."""

from s3_server import _moto_session, moto_server, s3_bucket, s3_environment, s3_server, storage_place

__all__ = ["_moto_session", "moto_server", "s3_bucket", "s3_environment", "s3_server", "storage_place"]
