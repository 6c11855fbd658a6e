"""Log entries in Kubernetes' format, from bytes that come in any pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.runtimes.shim.log_lines import LINE_LIMIT, Entry, LineFramer, format_entries, timestamp

_OUTPUT = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.just(b"\n"),
        st.integers(LINE_LIMIT - 2, LINE_LIMIT + 2).map(lambda size: b"x" * size),
    ),
    max_size=12,
)


def _frame(chunks: list[bytes]) -> list[Entry]:
    framer = LineFramer()
    return [entry for chunk in chunks for entry in framer.feed(chunk)] + list(framer.finish())


@pytest.mark.parametrize(
    ("output", "entries"),
    [
        (b"", []),
        (b"a\nb\n", [(b"F", b"a"), (b"F", b"b")]),
        (b"\n", [(b"F", b"")]),
        (b"a\r\n", [(b"F", b"a\r")]),
        (b"no end", [(b"P", b"no end")]),
        (b"\xff\xfe\n", [(b"F", b"\xff\xfe")]),
        (b"x" * LINE_LIMIT + b"\n", [(b"F", b"x" * LINE_LIMIT)]),
        (b"x" * LINE_LIMIT + b"y\n", [(b"P", b"x" * LINE_LIMIT), (b"F", b"y")]),
        (b"x" * (2 * LINE_LIMIT), [(b"P", b"x" * LINE_LIMIT), (b"P", b"x" * LINE_LIMIT)]),
    ],
)
def test_entries(output: bytes, entries: list[Entry]) -> None:
    """Each line is one entry; long and unfinished lines are partial ones."""
    assert _frame([output]) == entries


@given(_OUTPUT)
def test_chunks_make_no_difference(chunks: list[bytes]) -> None:
    """The same bytes give the same entries however they were cut."""
    assert _frame(chunks) == _frame([b"".join(chunks)])


@given(_OUTPUT)
def test_nothing_is_lost(chunks: list[bytes]) -> None:
    """Contents put together again, with a newline after each full entry, are the output."""
    together = b"".join(content + (b"\n" if tag == b"F" else b"") for tag, content in _frame(chunks))
    assert together == b"".join(chunks)


@given(_OUTPUT)
def test_entries_are_bounded_lines(chunks: list[bytes]) -> None:
    """No entry is longer than the limit or holds a newline."""
    assert all(len(content) <= LINE_LIMIT and b"\n" not in content for _, content in _frame(chunks))


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, b"1970-01-01T00:00:00.000000000Z"),
        (1_795_144_581_752_568_336, b"2026-11-20T03:16:21.752568336Z"),
        (1_000_000_001, b"1970-01-01T00:00:01.000000001Z"),
    ],
)
def test_timestamp(nanoseconds: int, text: bytes) -> None:
    """Times are RFC 3339 in UTC with all nine decimals."""
    assert timestamp(nanoseconds) == text


def test_formatted_entries() -> None:
    """An entry's line is time, stream, tag and content, separated by one space each."""
    lines = format_entries(iter([(b"F", b"a b"), (b"P", b"")]), b"stderr", 0)
    start = b"1970-01-01T00:00:00.000000000Z stderr "
    assert lines == start + b"F a b\n" + start + b"P \n"
