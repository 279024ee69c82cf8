"""Fixtures for all tests."""

import os
import signal

from covering import pytest_addoption, pytest_collection_modifyitems, pytest_configure
from inputs.added_modules import add_module
from inputs.eleven_companies import companies
from releasing.parts import disk, output, work
from servers.s3_server import _moto_session, moto_server, s3_bucket, s3_environment, s3_server, storage_place

__all__ = [
    "_moto_session",
    "add_module",
    "companies",
    "disk",
    "moto_server",
    "output",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "s3_bucket",
    "s3_environment",
    "s3_server",
    "storage_place",
    "work",
]

# A page takes a second, and the look ahead on it some more: tests that are about it switch it on.
os.environ.setdefault("MICROAGG_REPORT", "off")

# No power is cut while tests run, and waiting for the disk is a third of a night's time.
os.fsync = lambda handle: None

# A shell has the commands that it runs in the background ignore one of these signals, nohup the other; tests send both.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
