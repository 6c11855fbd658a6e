"""A process's log: foreign text breaks no line of it, and no peer fills a disk with it."""

import logging
import sys

from beehive.log_lines import BURST, LONGEST_LINE, LONGEST_TRACEBACK, PERIOD, LineFormatter, RateLimit


def record(message: str, *args: object, at: float = 0.0, level: int = logging.WARNING) -> logging.LogRecord:
    made = logging.LogRecord("beehive.hive", level, __file__, 1, message, args, None)
    made.created = at
    return made


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


def test_what_repeats_is_counted_and_said_later() -> None:
    limit = RateLimit({logging.WARNING: 3})
    assert [limit.filter(record("dead letter %d", n, at=1.0)) for n in range(10)] == [True] * 3 + [False] * 7
    assert limit.filter(record("another kind", at=1.0))
    later = record("dead letter %d", 10, at=1.0 + PERIOD)
    assert limit.filter(later)
    assert later.getMessage() == "dead letter 10 (7 more suppressed)"
    again = record("dead letter %d", 11, at=1.5 + PERIOD)
    assert limit.filter(again)
    assert again.getMessage() == "dead letter 11"


def test_a_clock_that_is_set_back_silences_nothing() -> None:
    limit = RateLimit({logging.WARNING: 1})
    assert limit.filter(record("x", at=1e9))
    assert limit.filter(record("x", at=5.0))


def test_kinds_are_forgotten_and_debug_is_not_limited() -> None:
    limit = RateLimit()
    assert all(limit.filter(record(f"kind {n}")) for n in range(5000))
    assert len(limit._counted) <= 1024
    assert all(limit.filter(record("x", level=logging.DEBUG)) for _ in range(BURST[logging.INFO] + 1))


def test_thirty_megabytes_of_names_are_some_kilobytes_of_log() -> None:
    formatter, limit = LineFormatter("%(message)s"), RateLimit()
    flood = [record("dead letter for %s", "r" * 1_000_000) for _ in range(30)]
    written = sum(len(formatter.format(each)) for each in flood if limit.filter(each))
    assert 0 < written < 30 * (LONGEST_LINE + 100)
