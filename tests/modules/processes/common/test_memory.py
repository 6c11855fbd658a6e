"""glibc's malloc serves all threads of the agent from one arena once it was told so, and gives memory back."""

import os
import platform
import subprocess
import sys
import weakref

import pytest

from beehive.testing import Harness
from modules.processes.common.memory import GROWN, LOOKS, PERIOD, MemoryTrimmer, collect_and_trim, resident_bytes
from tests.end_to_end.processes import REPOSITORY
from tests.support.collector import without_collections
from tests.support.patience import PATIENCE

_THREADS = 4
_PROGRAM = f"""
import ctypes, sys, threading
from modules.processes.common.memory import set_up_malloc
if "told" in sys.argv:
    assert set_up_malloc()
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
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert (done.stderr.count("Arena ") == 1) is one


_HOLES = """
import sys
from modules.processes.common.memory import resident_bytes, malloc_trim, set_up_malloc
from tests.support.patience import PATIENCE
if "told" in sys.argv:
    assert set_up_malloc()
before = resident_bytes()
texts = [b"x" * 60_000 for _ in range(1000)]
kept = texts[::20]
del texts
if "told" in sys.argv:
    malloc_trim()
print(resident_bytes() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_texts_that_are_gone_leave_no_holes() -> None:
    """One in twenty is kept: 3 MB of 60."""
    command = [sys.executable, "-c", _HOLES, "told"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert int(done.stdout) < 8_000_000


def test_memory_is_given_back_when_there_has_come_more() -> None:
    """And not at each look: what is in use stays."""
    resident, trimmed = [100 * GROWN], []
    with Harness() as bee:
        bee.start()
        back = MemoryTrimmer(bee.clock, lambda: resident[0], lambda: trimmed.append(resident[0]))
        bee.run_for(10 * PERIOD)
        assert trimmed == []
        resident[0] += 2 * GROWN
        bee.run_for(10 * PERIOD)
        assert trimmed == [102 * GROWN]
        resident[0] = 50 * GROWN
        bee.run_for(PERIOD)
        resident[0] = 52 * GROWN
        bee.run_for(10 * PERIOD)
        assert trimmed == [102 * GROWN, 52 * GROWN]
        back.close()
        resident[0] = 90 * GROWN
        bee.run_for(10 * PERIOD)
        assert len(trimmed) == 2


def test_the_amount_comes_from_the_kernel() -> None:
    assert resident_bytes() > 10_000_000


def test_slow_growth_is_growth() -> None:
    """Each look finds less than `GROWN` more than the one before."""
    resident, trimmed = [100 * GROWN], []
    with Harness() as bee:
        bee.start()
        back = MemoryTrimmer(bee.clock, lambda: resident[0], lambda: trimmed.append(resident[0]))
        for _ in range(4):
            resident[0] += GROWN // 2
            bee.run_for(PERIOD)
        back.close()
    assert len(trimmed) == 1


def test_memory_freed_after_a_trim_is_given_back_without_growth() -> None:
    trimmed: list[int] = []
    with Harness() as bee:
        bee.start()
        back = MemoryTrimmer(bee.clock, lambda: 100 * GROWN, lambda: trimmed.append(0))
        for _ in range(2 * LOOKS):
            bee.run_for(PERIOD)
        back.close()
    assert len(trimmed) == 2


class _Knot:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def test_garbage_is_collected_before_memory_is_given_back() -> None:
    with without_collections():
        knot = weakref.ref(_Knot())
        assert knot() is not None
        collect_and_trim()
        assert knot() is None
