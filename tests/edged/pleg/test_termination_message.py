"""What a container said when it ended."""

import os
from pathlib import Path
from typing import Any

import pytest

from edged.pleg.termination_message import end_of_log, with_termination_message
from edged.pods.pod_status.status import NodeView, pod_status
from modules.apimachinery.types import PodStatus
from tests.edged.pods.builders import a_container, a_pod, at, exited, facts, running

A = a_container("a")


def entry(content: str, tag: str = "F", stream: str = "stdout") -> bytes:
    return f"2026-11-20T01:54:50.000000001Z {stream} {tag} {content}\n".encode()


@pytest.mark.parametrize(
    ("log", "end"),
    [
        pytest.param(b"", b"", id="nothing"),
        pytest.param(entry("one") + entry("two", stream="stderr"), b"one\ntwo\n", id="both streams"),
        pytest.param(entry("be", "P") + entry("gun"), b"begun\n", id="parts of one line"),
        pytest.param(entry("a  b "), b"a  b \n", id="blanks are kept"),
        pytest.param(b"-20T01:54:50Z stderr\n" + entry("x"), b"x\n", id="half an entry at the beginning"),
        pytest.param(
            b"".join(entry(str(n)) for n in range(100)), b"".join(b"%d\n" % n for n in range(20, 100)), id="80"
        ),
        pytest.param(
            b"".join(entry("x" * 99) for _ in range(50)), b"x" * 47 + b"\n" + (b"x" * 99 + b"\n") * 20, id="2 KiB"
        ),
    ],
)
def test_the_end_of_a_log_is_80_lines_and_2048_bytes_at_most(log: bytes, end: bytes) -> None:
    assert end_of_log(log) == end


@pytest.mark.parametrize(
    ("words", "end", "message"),
    [
        pytest.param("enough", {"exit_code": 1}, "enough", id="the file says it"),
        pytest.param("enough", {"exit_code": 0}, "enough", id="the file says it of a success"),
        pytest.param("", {"exit_code": 1}, "of the log\n", id="the file is empty"),
        pytest.param(None, {"exit_code": 1}, "of the log\n", id="the file is not there"),
        pytest.param("", {"exit_code": 0}, "", id="it did not fail"),
        pytest.param("", {"exit_code": 0, "reason": "OOMKilled"}, "", id="it did not fail, another process was killed"),
        pytest.param("", {"exit_code": 1, "message_policy": "File"}, "", id="it wants no log"),
        pytest.param("", {"exit_code": 1, "message": "oom"}, "oom: of the log\n", id="the runtime says something too"),
        pytest.param("mine", {"exit_code": 1, "message": "oom"}, "oom: mine", id="as of the file"),
    ],
)
def test_the_log_stands_in_for_words_that_a_failed_container_did_not_write(
    tmp_path: Path, words: str | None, end: dict[str, Any], message: str
) -> None:
    log, file = tmp_path / "0.log", tmp_path / "words"
    log.write_bytes(entry("of the log"))
    if words is not None:
        file.write_text(words)
    given = {"message_policy": "FallbackToLogsOnError", "message_path": str(file), "log_path": str(log), **end}
    assert with_termination_message(exited(A, **given)).message == message


def test_a_running_container_has_no_termination_message(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("wait")
    assert with_termination_message(running(A, message_path=str(tmp_path / "words"))).message == ""


def test_of_a_long_file_the_last_4096_bytes_are_read(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("a" * 10_000 + "z" * 4000)
    assert with_termination_message(exited(A, message_path=str(tmp_path / "words"))).message == "a" * 96 + "z" * 4000


def test_of_a_huge_log_only_the_end_is_read(tmp_path: Path) -> None:
    """Entries are 16 KiB long at most, so whole ones are among what is read."""
    log = tmp_path / "0.log"
    with log.open("wb") as file:
        file.truncate(1 << 34)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + entry("x" * 16384, "P") + entry("the end"))
    found = with_termination_message(exited(A, 1, message_policy="FallbackToLogsOnError", log_path=str(log))).message
    assert found == "x" * 2040 + "the end\n"


@pytest.mark.parametrize("made", ["link", "fifo", "directory"])
def test_a_link_in_the_place_of_the_message_file_is_not_followed(tmp_path: Path, made: str) -> None:
    path = tmp_path / "words"
    if made == "link":
        path.symlink_to("/etc/passwd")
    elif made == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert with_termination_message(exited(A, message_path=str(path))).message == ""


def test_the_containers_of_a_pod_share_12_kib() -> None:
    """Of the present end and the last one; a character that does not fit is left out whole."""
    names = ["a", "b", "c", "d"]
    pod = a_pod(*(a_container(name) for name in names), restart="Never")
    said = {"a": "x" * 4000, "b": "é" * 2000, "c": "short", "d": ""}
    known = facts(*(exited(a_container(name), 1, message=said[name]) for name in names))
    status = pod_status(pod, known, NodeView((), "fake"), at(5), old=PodStatus())
    ends = [each.state.terminated for each in status.container_statuses]
    assert [len(end.message.encode()) for end in ends if end is not None] == [3072, 3072, 5, 0]
