"""The file of the audit log: order, bounds, rotation, and what happens when it cannot be written."""

import json
import os
import re
import stat
import threading
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from beehive.testing import Harness
from modules.cloud.audit import log_file
from modules.cloud.audit.events import ALLOW, DECISION, DROPPED, AuditEvent, AuditUser
from modules.cloud.audit.log_file import AuditLog, AuditLogError
from tests.end_to_end.processes import wait_until
from tests.support.failing import Failing, census
from tests.support.patience import PATIENCE

_BACKUP = re.compile(r"audit\.a-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}\.log")


def event(number: int) -> AuditEvent:
    """Return an event."""
    return AuditEvent(
        "audit.k8s.io/v1", "Metadata", f"{number:06}", "ResponseComplete", "/", "get", AuditUser("alice"),
        annotations={DECISION: ALLOW},
    )  # fmt: skip


def ids(*files: Path) -> list[int]:
    """Return the numbers of the events in files; each line is one."""
    return [int(json.loads(line)["auditID"]) for file in files for line in file.read_text().splitlines() if line]


def backups(directory: Path) -> list[Path]:
    """Return the full files, the oldest first."""
    return sorted(each for each in directory.iterdir() if _BACKUP.fullmatch(each.name) and each.is_file())


def test_events_are_lines_in_order_that_only_this_user_can_read(bee: Harness, tmp_path: Path) -> None:
    """Also after a restart, and in a file that others could read before."""
    path = tmp_path / "audit.log"
    path.touch(mode=0o644)
    for life in range(2):
        log = AuditLog(path, 1_000_000, 3, bee.clock)
        log.start()
        for number in range(500):
            log.put(event(life * 500 + number))
        log.close()
        assert (log.written, log.dropped) == (500, 0)
    assert ids(path) == list(range(1000))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    log.put(event(1))
    assert log.dropped == 1, "it is closed"


def test_a_full_file_is_kept_beside_a_new_one_and_the_oldest_go(bee: Harness, tmp_path: Path) -> None:
    """Each has as many lines as it may have, and the time in its name; no event is in two, and files of others stay."""
    stamp = "2000-11-27T07-30-00.000"
    others = [
        tmp_path / name for name in ("audit.a-old.log", f"audit.a-{stamp}.log.gz", f"audit-a-{stamp}.log", "x.log")
    ]
    for each in others:
        each.touch()
    (tmp_path / f"audit.a-{stamp}.log").mkdir()  # cannot be removed, and stops nothing
    most = 10 * len(msgspec.json.encode(event(0)) + b"\n")
    for numbers in (range(5), range(5, 100)):
        log = AuditLog(tmp_path / "audit.a.log", most, 3, bee.clock)
        for number in numbers:
            log.put(event(number))
        log.start()
        log.close()
        assert log.dropped == 0
    kept = backups(tmp_path)
    assert len(kept) == 3
    assert all((each.stat().st_size, stat.S_IMODE(each.stat().st_mode)) == (most, 0o600) for each in kept)
    assert f"{datetime.fromtimestamp(bee.clock.now(), UTC):%Y-%m-%dT%H-%M}" in kept[0].name
    found = ids(*kept, tmp_path / "audit.a.log")
    assert found == list(range(found[0], 100))
    assert all(each.exists() for each in others)


@pytest.mark.parametrize("stamp", ["9999-99-99T99-99-99.999", "9999-12-31T23-59-59.999"])
def test_a_full_file_of_no_time_stops_nothing(bee: Harness, tmp_path: Path, stamp: str) -> None:
    """Nothing can be named after it, and nothing is written over while the clock stands."""
    (tmp_path / f"audit.a-{stamp}.log").touch()
    log = AuditLog(tmp_path / "audit.a.log", 2000, 30, bee.clock)
    log.start()
    for number in range(40):
        log.put(event(number))
    log.close()
    assert (log.dropped, ids(*backups(tmp_path), tmp_path / "audit.a.log")) == (0, [*range(40)])


def test_a_file_that_cannot_be_closed_or_renamed_is_opened_again(
    bee: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its descriptor is another file's by then. A full network file system may say so at the end (close(2))."""
    before = census()
    log = AuditLog(tmp_path / "audit.a.log", 200, 3, bee.clock)
    first, real = log._descriptor, os.close

    def close(descriptor: int) -> None:
        real(descriptor)
        if descriptor == first and not log.dropped:
            os.dup2(other, descriptor)
            raise OSError(28, "No space left on device")

    other = os.open(tmp_path, os.O_RDONLY)
    monkeypatch.setattr(os, "close", close)
    monkeypatch.setattr(Path, "rename", Failing(0, OSError(30, "Read-only file system")).call(Path.rename))
    for number in range(4):
        log.put(event(number))
    log.start()
    log.close()
    assert (log.dropped, ids(*backups(tmp_path), tmp_path / "audit.a.log")) == (2, [0, 3])
    for each in (first, other):
        real(each)
    assert not census().more_than(before)


def test_what_has_no_room_is_left_out_counted_and_told(
    bee: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk that is slower than the requests delays none of them."""
    monkeypatch.setattr(log_file, "MOST_WAITING", 1000)
    log = AuditLog(tmp_path / "audit.log", 1_000_000, 3, bee.clock)
    for number in range(100):  # nothing is written yet
        log.put(event(number))
    assert log.dropped > 90
    real, late = os.write, iter([event(99)])

    def write(file: int, data: memoryview) -> int:
        for each in late:  # what is being written has its room still
            log.put(each)
        return real(file, data)

    monkeypatch.setattr(os, "write", write)
    log.start()
    wait_until(lambda: log.written == 101 - log.dropped, "the waiting events are written")
    dropped = log.dropped
    wait_until(lambda: log._bytes == 0, "there is room")
    log.put(event(100))
    log.close()
    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert [int(each["auditID"]) for each in lines] == [*range(101 - dropped), 100]
    decided = {DECISION: ALLOW}
    assert [each["annotations"] for each in lines[-2:]] == [decided, {**decided, DROPPED: str(dropped)}]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "has gaps" in caplog.text


def test_a_file_that_cannot_be_written_loses_events_and_is_tried_again(
    bee: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk. A line that was written in part is ended, so that the next one can be read."""
    real, calls = os.write, list[int]()

    def write(file: int, data: memoryview) -> int:
        if file != log._descriptor:
            return real(file, data)
        calls.append(len(data))
        if len(calls) in (2, 3):
            raise OSError(28, "No space left on device")
        return real(file, data[:10] if len(calls) == 1 else data)

    log = AuditLog(tmp_path / "audit.log", 1_000_000, 3, bee.clock)
    monkeypatch.setattr(os, "write", write)
    log.start()
    log.put(event(1))
    wait_until(lambda: log.dropped == 1, "it is counted")
    assert log.failure == "No space left on device"
    log.put(event(2))
    wait_until(lambda: log.dropped == 2, "it is counted, too")
    log.put(event(3))
    wait_until(lambda: log.written == 1, "there is room")
    log.put(event(4))
    log.close()
    first, *lines = (tmp_path / "audit.log").read_text().splitlines()
    assert len(first) == 10
    assert [json.loads(line)["annotations"].get(DROPPED) for line in lines] == ["2", None]
    assert (log.written, log.dropped, log.failure) == (2, 2, "")


@pytest.mark.parametrize("most", [1_000_000, 10])
def test_a_line_of_an_earlier_life_that_was_cut_is_ended(
    bee: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """After a power cut; also by the end of a full file. The end of the log waits for what is being written."""
    path = tmp_path / "audit.a.log"
    path.write_text('{"kind":')
    log = AuditLog(path, most, 3, bee.clock)
    begun, awaited, real, join = threading.Event(), threading.Event(), os.write, log._thread.join

    def write(file: int, data: memoryview) -> int:
        begun.set()
        assert awaited.wait(PATIENCE)
        return real(file, data)

    def wait() -> None:
        awaited.set()
        join()

    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(log._thread, "join", wait)
    log.start()
    log.put(event(1))
    assert begun.wait(PATIENCE)
    log.close()
    cut, line = [line for each in (*backups(tmp_path), path) for line in each.read_text().splitlines()]
    assert (cut, json.loads(line)["auditID"]) == ('{"kind":', "000001")


def test_a_path_that_is_no_file_is_refused(bee: Harness, tmp_path: Path) -> None:
    """The directory must exist; a link, which another user may have made, is not followed; a pipe would block."""
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe", 0o640)
    before = census()
    for path in (tmp_path / "none/audit.log", tmp_path / "link", tmp_path, tmp_path / "pipe"):
        with pytest.raises(AuditLogError, match="--audit-log-path names a file"):
            AuditLog(path, 1000, 1, bee.clock)
    assert not (tmp_path / "target").exists()
    assert stat.S_IMODE((tmp_path / "pipe").stat().st_mode) == 0o640, "a device keeps its mode"
    assert not census().more_than(before)
