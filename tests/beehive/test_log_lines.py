"""A process's log: foreign text breaks no line of it, and no peer fills a disk with it."""

import errno
import json
import logging
import sqlite3
import sys
import time

import pytest

from beehive.log_lines import (
    BURST,
    LONGEST_LINE,
    LONGEST_TRACEBACK,
    PERIOD,
    SAME_BURST,
    SAME_PERIOD,
    JsonFormatter,
    LineFormatter,
    RateLimit,
    TimedFormatter,
)


def record(message: str, *args: object, at: float = 0.0, level: int = logging.WARNING) -> logging.LogRecord:
    made = logging.LogRecord("beehive.hive", level, __file__, 1, message, args, None)
    made.created = at
    return made


def test_times_are_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine's zone is: logs of nodes and the cloud are read side by side."""
    monkeypatch.setenv("TZ", "UTC+5")
    time.tzset()
    try:
        made = record("up")
        made.msecs = 250
        line = TimedFormatter("%(levelname)s %(message)s").format(made)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert line == "1970-01-01T00:00:00.250Z WARNING up"


def test_a_node_forges_no_line_and_no_escape() -> None:
    line = LineFormatter("%(levelname)s %(message)s").format(
        record("node %s: %s", "n1", "x\n2026 ERROR edgecore: forged\r\x1b[2J")
    )
    assert line == "WARNING node n1: x\\n2026 ERROR edgecore: forged\\r\\x1b[2J"


def test_a_line_has_a_bound() -> None:
    line = LineFormatter("%(message)s").format(record("%s", "\x1b" * 4_000_000))
    assert len(line) == LONGEST_LINE + len("...")


def test_a_traceback_can_be_read_and_forges_nothing() -> None:
    try:
        raise ValueError("x\n2026 ERROR edgecore: forged \x1b[2J " + "y" * 100_000)
    except ValueError:
        failed = record("it failed")
        failed.exc_info = sys.exc_info()
    lines = LineFormatter("%(message)s").format(failed).splitlines()
    assert lines[:2] == ["it failed", "  Traceback (most recent call last):"]
    assert all(line.startswith("  ") for line in lines[1:])
    assert "  2026 ERROR edgecore: forged \\x1b[2J" in "\n".join(lines)
    assert len("\n".join(lines)) < LONGEST_TRACEBACK + 2 * LONGEST_LINE


def test_repeated_lines_are_counted_and_reported_later() -> None:
    limit = RateLimit({logging.WARNING: 3})
    assert [limit.filter(record("dead letter %d", n, at=1.0)) for n in range(10)] == [True] * 3 + [False] * 7
    assert limit.filter(record("another kind", at=1.0))
    later = record("dead letter %d", 10, at=1.0 + PERIOD)
    assert limit.filter(later)
    assert later.getMessage() == "dead letter 10 (7 more suppressed)"
    again = record("dead letter %d", 11, at=1.5 + PERIOD)
    assert limit.filter(again)
    assert again.getMessage() == "dead letter 11"


def test_identical_lines_are_folded_whatever_their_kind_may_have() -> None:
    limit = RateLimit()
    admitted = [limit.filter(record("pod %s: it failed", "default/web", at=n)) for n in range(int(SAME_PERIOD))]
    assert sum(admitted) == SAME_BURST
    assert limit.filter(record("pod %s: it failed", "default/db", at=1.0))
    later = record("pod %s: it failed", "default/web", at=SAME_PERIOD)
    assert limit.filter(later)
    assert later.getMessage() == f"pod default/web: it failed ({int(SAME_PERIOD) - SAME_BURST} more suppressed)"


def failing(error: Exception) -> logging.LogRecord:
    """A record of an exception that something failed with."""
    made = record("chore %s failed", "tidy")
    try:
        try:
            raise error
        except Exception as cause:
            raise RuntimeError("it failed") from cause
    except RuntimeError:
        made.exc_info = sys.exc_info()
    return made


def full_database() -> sqlite3.OperationalError:
    """As SQLite raises it."""
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorname = "SQLITE_FULL"
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/var/x"), "No space left on device: /var/x"),
        (OSError(errno.EROFS, "Read-only file system"), "Read-only file system"),
        (full_database(), "database or disk is full"),
    ],
    ids=["full", "read-only", "database"],
)
def test_an_error_of_the_machine_is_one_line_without_a_traceback(error: Exception, said: str) -> None:
    made = failing(error)
    assert LineFormatter("%(message)s").format(made) == f"chore tidy failed: {said}"
    line = json.loads(JsonFormatter().format(made))
    assert (line["msg"], "exception" in line) == (f"chore tidy failed: {said}", False)


class Thing:
    """An argument that is also fields."""

    def __str__(self) -> str:
        return "default/web"

    def log_fields(self) -> dict[str, str]:
        return {"pod": str(self), "uid": "u1"}


def test_a_json_line_is_one_object_of_ascii_with_its_fields() -> None:
    made = record("pod %s: %s", Thing(), "x\n\x1b[2J\u202e", at=0.25)
    made.threadName, made.msecs, made.container = "edged/worker-1", 250.9, "app"
    text = JsonFormatter("edge-1").format(made)
    assert text.isascii()
    assert "\n" not in text
    assert json.loads(text) == {
        "ts": "1970-01-01T00:00:00.250Z",
        "level": "warning",
        "logger": "beehive.hive",
        "msg": "pod default/web: x\n\x1b[2J\u202e",
        "module": "edged",
        "node": "edge-1",
        "pod": "default/web",
        "uid": "u1",
        "container": "app",
    }


def test_a_json_line_has_an_exception_as_one_field_and_a_bound() -> None:
    line = json.loads(JsonFormatter().format(failing(ValueError("y" * 100_000))))
    assert line["exception"].startswith("Traceback (most recent call last):")
    assert len(line["exception"]) < LONGEST_TRACEBACK + LONGEST_LINE
    assert len(json.loads(JsonFormatter().format(record("%s", "z" * 100_000)))["msg"]) == LONGEST_LINE + len("...")


def test_a_suppressed_json_line_keeps_its_fields() -> None:
    limit = RateLimit({logging.WARNING: 1})
    for _ in range(3):
        limit.filter(record("pod %s", Thing()))
    later = record("pod %s", Thing(), at=SAME_PERIOD)
    assert limit.filter(later)
    assert json.loads(JsonFormatter().format(later))["pod"] == "default/web"


def test_a_clock_that_is_set_back_silences_nothing() -> None:
    limit = RateLimit({logging.WARNING: 1})
    assert limit.filter(record("x", at=1e9))
    assert limit.filter(record("x", at=5.0))


def test_kinds_are_forgotten_and_debug_is_not_limited() -> None:
    limit = RateLimit()
    assert all(limit.filter(record(f"kind {n}")) for n in range(5000))
    assert len(limit._kinds._counted) <= 1024 >= len(limit._same._counted)
    assert all(limit.filter(record("x", level=logging.DEBUG)) for _ in range(BURST[logging.INFO] + 1))


def test_thirty_megabytes_of_names_are_some_kilobytes_of_log() -> None:
    formatter, limit = LineFormatter("%(message)s"), RateLimit()
    flood = [record("dead letter for %s", "r" * 1_000_000) for _ in range(30)]
    written = sum(len(formatter.format(each)) for each in flood if limit.filter(each))
    assert 0 < written < 30 * (LONGEST_LINE + 100)
