"""The commands that ask the node: what they understand, what they print, and what they say when it does not work."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.cli import main
from tests.modules.processes.common.pod_commands.stub import Stub, pod, run

STATIC = pod("static", namespace="other", annotations={"kubernetes.io/config.source": "file"})
OWNED = pod("owned", ownerReferences=[{"kind": "Job", "name": "j"}])


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    made = Stub(tmp_path, pod("p"), pod("two", "app", "bad", labels={"app": "web"}), STATIC, OWNED)
    yield made
    made.server.stop()


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ((), ["owned", "p", "two", "static"]),
        (("-A",), ["owned", "p", "two", "static"]),
        (("-n", "other"), ["static"]),
        (("-l", "app=web"), ["two"]),
        (("ns/p", "other/static"), ["p", "static"]),
        (("-n", "ns", "pod/p"), ["p"]),
        (("--no-headers",), ["owned", "p", "two", "static"]),
    ],
)
def test_pods_are_listed(
    stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], names: list[str]
) -> None:
    assert run(tmp_path, "pods", *arguments) == ExitCode.OK
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    if "--no-headers" not in arguments:
        assert lines.pop(0) == ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP"]
    assert [line[1] for line in lines] == names
    assert lines[0][2:5] == ["2/2" if names == ["two"] else "1/1", "Running", "0"]


def test_pods_in_other_forms(stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "pods", "-o", "name", "ns/p") == ExitCode.OK
    assert capsys.readouterr().out == "pod/p\n"
    assert run(tmp_path, "pods", "-o", "json", "ns/p") == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["items"][0]["metadata"]["name"] == "p"
    assert run(tmp_path, "pods", "-o", "yaml", "ns/p") == ExitCode.OK
    assert "name: p\n" in capsys.readouterr().out
    assert run(tmp_path, "pods", "-o", "wide", "--no-headers") == ExitCode.OK
    ends = [line.split()[-2:] for line in capsys.readouterr().out.splitlines()]
    assert ends == [["Job/j", "app:1"], ["cloud", "app:1"], ["cloud", "app:1,bad:1"], ["file", "app:1"]]


def test_the_metrics_are_printed_as_they_are(stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "metrics") == ExitCode.OK
    assert capsys.readouterr().out == "# HELP a one\na 1\n"


def test_a_pod_that_is_not_here_is_reported(stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "pods", "ns/p", "ns/gone") == ExitCode.REFUSED
    said = capsys.readouterr()
    assert ("Running" in said.out, 'pods "ns/gone" not found' in said.err) == (True, True)
    assert run(tmp_path, "pods", "-l", "no=such") == ExitCode.OK
    assert "no such pods" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "arguments", "status", "says"),
    [
        ("logs", ("other",), ExitCode.REFUSED, "no such pod"),
        ("exec", ("-i", "ns/p", "--", "ls"), ExitCode.REFUSED, "this runtime has no streams"),
        ("attach", ("ns/p",), ExitCode.REFUSED, "broke off"),
        ("exec", ("ns/p",), ExitCode.USAGE, "edgecore exec POD -- COMMAND"),
        ("exec", (), ExitCode.USAGE, "a pod and a command"),
        ("attach", (), ExitCode.USAGE, "pod is wanted"),
        ("exec", ("ns/p", "-c", "nope", "--", "ls"), ExitCode.REFUSED, "it has app"),
        ("cp", ("a",), ExitCode.USAGE, "cp POD:/PATH LOCAL"),
        ("cp", ("a", "b"), ExitCode.USAGE, "one of source and target"),
        ("cp", ("a", "p:"), ExitCode.USAGE, "a pod and a path"),
        ("port-forward", ("ns/p",), ExitCode.USAGE, "8080:80"),
        ("port-forward", ("ns/p", "x"), ExitCode.USAGE, "no ports"),
        ("port-forward", ("ns/p", "80:80"), ExitCode.REFUSED, "this runtime has no streams"),
        ("port-forward", ("ns/p", ":80", "--address", "host"), ExitCode.USAGE, "no address"),
        ("top", ("deploy",), ExitCode.USAGE, "edgecore top pods"),
        ("apply", ("-f", "x"), 1, "cloudcore apply -f FILE"),
        ("ps", (), ExitCode.USAGE, "edgecore pods"),
    ],
)
def test_what_does_not_work_is_reported(
    stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, arguments: tuple[str, ...],
    status: int, says: str,
) -> None:  # fmt: skip
    words = [command, *arguments] if command in ("apply", "ps") else [command, "--root", str(tmp_path), *arguments]
    try:
        found = main(words)
    except SystemExit as end:
        found = int(str(end.code))
    said = capsys.readouterr().err
    assert (found, says in said, said.count("\n")) == (status, True, 1), said


def test_a_command_is_asked_for_word_by_word(stub: Stub, tmp_path: Path) -> None:
    run(tmp_path, "exec", "-i", "-c", "app", "ns/p", "--", "sh", "-c", "echo a b")
    request = stub.asked[-1]
    assert (request.parts[3], request.all("command")) == ("app", ("sh", "-c", "echo a b"))
    assert [request.flag(name) for name in ("input", "output", "error", "tty")] == [True, True, True, False]


def test_without_a_terminal_t_is_left_out(stub: Stub, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As by kubectl, so that scripts with -it work."""
    assert run(tmp_path, "exec", "-t", "ns/two", "--", "ls") == ExitCode.REFUSED
    said = capfd.readouterr().err
    assert "Unable to use a TTY" in said
    assert 'Defaulted container "app" out of: app, bad\n' in said
    assert not any(request.flag("tty") for request in stub.asked)


@pytest.mark.parametrize("command", ["pods", "logs p", "exec p -- ls", "cp p:/a b", "top pods", "get pods", "events"])
def test_an_edgecore_that_does_not_run_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (tmp_path / "edged").mkdir()
    name, *rest = command.split()
    assert run(tmp_path, name, *rest) != ExitCode.OK
    said = capsys.readouterr().err
    assert ("is `edgecore run` running" in said, said.count("\n")) == (True, 1)


@pytest.mark.parametrize("command", ["pods", "get"])
def test_a_missing_configuration_file_is_named(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [command, "pods"] if command == "get" else [command]
    try:
        status = main([*words, "--config", str(tmp_path / "none.yaml")])
    except SystemExit as end:
        status = int(str(end.code))
    assert (status, "none.yaml" in capsys.readouterr().err) == (ExitCode.CONFIGURATION, True)


@pytest.mark.parametrize(
    "arguments",
    [["logs", "a/b/c"], ["logs", "/p"], ["logs", "p", "--tail", "-2"], ["logs"], ["exec", "p"], ["pods", "-x"]],
)
def test_a_wrong_command_line(tmp_path: Path, arguments: list[str]) -> None:
    Stub(tmp_path).server.stop()
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--root", str(tmp_path)])
    assert end.value.code in (ExitCode.USAGE, ExitCode.REFUSED)
