"""glibc's malloc serves all threads of the agent from one arena once it was told so."""

import os
import platform
import subprocess
import sys

import pytest

from tests.end_to_end.processes import REPOSITORY

_THREADS = 4
_PROGRAM = f"""
import ctypes, sys, threading
from modules.edgecore.memory import use_one_arena
if "told" in sys.argv:
    assert use_one_arena()
all_have_some = threading.Barrier({_THREADS} + 1)
def work():
    kept = [bytes(10_000) for _ in range(10)]
    all_have_some.wait()
for _ in range({_THREADS}):
    threading.Thread(target=work).start()
all_have_some.wait()
ctypes.CDLL(None).malloc_stats()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
@pytest.mark.parametrize(("argument", "one"), [("told", True), ("", False)])
def test_threads_share_an_arena(argument: str, *, one: bool) -> None:
    command = [sys.executable, "-c", _PROGRAM, argument]
    environment = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stderr.count("Arena ") == 1) is one
