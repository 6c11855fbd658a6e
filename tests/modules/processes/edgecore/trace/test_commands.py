"""`edgecore trace explain`, `export` and `view`, as they are called."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from beehive.trace.writer import open_writer
from modules.processes.edgecore.cli import main
from tests.end_to_end.processes import REPOSITORY
from tests.modules.processes.edgecore.trace.made import HEADER, Node, arrives, running_pod


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A recorded trace of two pods; one does not run."""
    node = Node()
    running_pod(node, "web", "u1")
    arrives(node, "late", "u2")
    file = tmp_path / "run.trace"
    writer = open_writer(file, HEADER)
    writer.write(node.records)
    writer.close()
    return file


def test_explain_tells_the_story(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In plain text when the output is no terminal."""
    assert main(["trace", "explain", str(trace), "pod", "default/web"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("pod default/web: running\n")
    assert "start_container web (run-u1)" in text
    assert "\x1b" not in text


def test_explain_for_programs(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON object; the step that waits is marked."""
    assert main(["trace", "explain", "--json", str(trace), "pod", "late"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert reported["state"] == "not running"
    (step,) = [step for step in reported["steps"] if step["mark"]]
    assert (step["way"], step["mark"]) == ("metamanager → edged", "waits here")


def test_explain_a_missing_object(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another exit status, and the names that there are."""
    assert main(["trace", "explain", str(trace), "pod", "default/wbe"]) == 2
    assert "default/late, default/web" in capsys.readouterr().out


@pytest.mark.parametrize("words", [("pod", "a/b/c"), ("pod", "a/")])
def test_explain_other_texts_than_objects(
    trace: Path, words: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The error shows how it is written."""
    assert main(["trace", "explain", str(trace), *words]) == 2
    assert "pod default/nginx" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("pod", "web"), ("po", "default/web")])
def test_explain_without_a_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The kind is not taken for a file, and the error says where a trace is from."""
    monkeypatch.chdir(tmp_path)
    assert main(["trace", "explain", *words]) == 2
    said = capsys.readouterr().err
    assert f"edgecore trace explain FILE {' '.join(words)}; `edgecore trace dump -o FILE`" in said


def test_dump_takes_its_file_by_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["trace", "dump", "day.trace"])
    assert "unrecognized arguments: day.trace; `-o FILE`" in capsys.readouterr().err


def test_a_file_that_is_no_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An error that says what is wanted, not a traceback."""
    other = tmp_path / "notes.txt"
    other.write_text("hello")
    assert main(["trace", "view", str(other), "-o", str(tmp_path / "x.html")]) == 2
    assert "a trace of edgecore" in capsys.readouterr().err


def test_a_cut_trace_is_shown_to_its_last_whole_frame(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And a note says that something is missing."""
    trace.write_bytes(trace.read_bytes()[:-7])
    assert main(["trace", "explain", str(trace), "pod", "default/web"]) == 0
    assert "the trace ends early" in capsys.readouterr().err


def test_export_of_one_object(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only its history is drawn."""
    assert main(["trace", "export", "--mermaid", str(trace), "--object", "pod default/late"]) == 0
    text = capsys.readouterr().out
    assert "insert default/pod/late" in text
    assert "default/pod/web" not in text


def test_export_for_perfetto_into_a_file(trace: Path, tmp_path: Path) -> None:
    """The file is JSON with slices."""
    out = tmp_path / "out.json"
    assert main(["trace", "export", "--perfetto", str(trace), "-o", str(out), "--to", "0.4"]) == 0
    names = [event["name"] for event in json.loads(out.read_bytes())["traceEvents"] if event["ph"] == "X"]
    assert "start_container default/pod/web web" in names
    assert "insert default/pod/late" not in names


def test_view_writes_beside_nothing(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default into the working directory, under the trace's name, for its owner alone; it says where."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.trace.html").touch(0o644)
    assert main(["trace", "view", str(trace)]) == 0
    page = (tmp_path / "run.trace.html").read_text()
    assert (tmp_path / "run.trace.html").stat().st_mode & 0o777 == 0o600
    assert page.startswith("<!doctype html>")
    assert "http" not in page.replace("http-equiv", "")
    assert "run.trace.html: 22 events" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["pods", "po", "Pod"])
def test_a_kind_is_called_as_kubectl_calls_it(trace: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "explain", str(trace), kind, "default/web"]) == 0
    assert capsys.readouterr().out.startswith("pod default/web: running\n")


def test_a_kind_without_objects_is_described_in_english(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "explain", str(trace), "leases", "x"]) == 2
    assert "nor is any other object of the kind lease" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["view"], ["export", "--perfetto"], ["export", "--mermaid"]])
def test_an_object_that_is_not_there_is_not_shown(
    trace: Path, tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """An error with names that are, and no empty page."""
    page = tmp_path / "page"
    assert main(["trace", *command, str(trace), "--object", "pod default/nope", "-o", str(page)]) == 2
    said = capsys.readouterr().err
    assert "pod default/nope is not in the trace" in said
    assert "default/late, default/web" in said
    assert not page.exists()


@pytest.mark.parametrize("command", ["export --mermaid", "export --perfetto", "explain", "show"])
def test_a_reader_that_has_seen_enough_ends_it_quietly(trace: Path, command: str) -> None:
    """`edgecore trace export … | head -0`: exit status 0 and not a word."""
    name, *options = command.split()
    what = ["pod", "default/web"] if name == "explain" else []
    arguments = [sys.executable, "-m", "modules.processes.edgecore", "trace", name, *options, str(trace), *what]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(arguments, stdout=writing, stderr=subprocess.PIPE, cwd=REPOSITORY, check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
