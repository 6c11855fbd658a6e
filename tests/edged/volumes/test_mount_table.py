"""One reading of the kernel's table of mounts serves all who wait for it, and none who asks after it began."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from edged.volumes.mounting import MountTable
from tests.support.patience import PATIENCE


def test_one_reading_serves_all_who_wait() -> None:
    """Those who ask while the table is read get the next reading, all of them the same one."""
    begun, finish = Event(), Event()
    readings: list[bytes] = []

    def read() -> bytes:
        readings.append(b"%d" % len(readings))
        content = readings[-1]
        begun.set()
        assert finish.wait(PATIENCE)
        return content

    table = MountTable(read)
    with ThreadPoolExecutor(6) as threads:
        first = threads.submit(table.content)
        assert begun.wait(PATIENCE)
        others = [threads.submit(table.content) for _ in range(5)]
        while table.asked < 6:
            assert not finish.is_set()
        finish.set()
        assert first.result(PATIENCE) == b"0"
        assert {each.result(PATIENCE) for each in others} == {b"1"}
    assert len(readings) == 2


def test_each_later_call_reads_again() -> None:
    """What is mounted since is seen."""
    tables = iter((b"old", b"new"))
    table = MountTable(lambda: next(tables))
    assert (table.content(), table.content()) == (b"old", b"new")
