"""Servers that tests start for themselves go when the tests go."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

TESTS = Path(__file__).resolve().parents[1]
STARTER = f"""
import subprocess, sys, time
sys.path.insert(0, {str(TESTS)!r})
from servers.process import end_with_the_tests
print(subprocess.Popen(["sleep", "60"], preexec_fn=end_with_the_tests, start_new_session=True).pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent is gone")
def test_a_server_ends_though_its_tests_are_killed() -> None:
    starter = subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    server = psutil.Process(int(starter.stdout.readline()))
    starter.kill()
    starter.communicate()
    assert psutil.wait_procs([server], timeout=30)[1] == []
