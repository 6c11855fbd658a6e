"""`edgecore logs`: which logs it asks for, and how it prints several."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.common.pod_commands.logs import wanted, with_prefix
from tests.modules.processes.common.pod_commands.stub import Stub, pod, run


def chosen(**options: Any) -> argparse.Namespace:
    off = {
        "follow": False, "previous": False, "timestamps": False, "tail": None, "since": None, "since_time": None,
        "limit_bytes": None, "selector": "",
    }  # fmt: skip
    return argparse.Namespace(**{**off, **options})


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ({}, []),
        ({"follow": True, "tail": 0}, [("follow", "true"), ("tailLines", "0")]),
        ({"since": "1h30m", "previous": True}, [("previous", "true"), ("sinceSeconds", "5400")]),
        ({"since": "10ms"}, [("sinceSeconds", "1")]),
        ({"since": "2026-11-20T05:42:16Z"}, [("sinceTime", "2026-11-20T05:42:16Z")]),
        ({"since_time": "2026-11-20T05:42:16Z", "timestamps": True},
         [("timestamps", "true"), ("sinceTime", "2026-11-20T05:42:16Z")]),
        ({"selector": "a=b"}, [("tailLines", "10")]),
        ({"selector": "a=b", "tail": -1, "limit_bytes": 7}, [("limitBytes", "7")]),
    ],
)  # fmt: skip
def test_options_become_a_query(options: dict[str, Any], query: list[tuple[str, str]]) -> None:
    assert wanted(chosen(**options)) == query


@pytest.mark.parametrize(
    "options", [{"since": "soon"}, {"since_time": "10m"}, {"since": "1m", "since_time": "2026-11-20T05:42:16Z"}]
)
def test_times_that_cannot_be_read(options: dict[str, Any]) -> None:
    with pytest.raises(NodeError, match="--since"):
        wanted(chosen(**options))


def test_each_line_has_its_prefix() -> None:
    assert b"".join(with_prefix([b"o", b"ne\ntw", b"o\n\nend"], b"> ")) == b"> one\n> two\n> \n> end\n"
    assert b"".join(with_prefix([], b"> ")) == b""
    long = b"".join(with_prefix([b"x" * 70_000, b"y\n"], b"> "))
    assert long == b"> " + b"x" * 70_000 + b"\n> y\n"


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    made = Stub(
        tmp_path, pod("p"), pod("two", "app", "side", labels={"app": "web"}),
        pod("three", "app", "bad", labels={"app": "web"}), pod("d", namespace="default"),
    )  # fmt: skip
    yield made
    made.server.stop()


@pytest.mark.parametrize(
    ("arguments", "printed", "remark"),
    [
        (("ns/p",), "app one\ntwo\n", ""),
        (("d",), "app one\ntwo\n", ""),
        (("p", "-n", "ns"), "app one\ntwo\n", ""),
        (("pod/p", "-n", "ns", "app"), "app one\ntwo\n", ""),
        (("ns/two",), "app one\ntwo\n", 'Defaulted container "app" out of: app, side\n'),
        (("ns/two", "side"), "side one\ntwo\n", ""),
        (("ns/two", "-c", "side", "--prefix"), "[pod/two/side] side one\n[pod/two/side] two\n", ""),
        (("ns/two", "--all-containers"), "app one\ntwo\nside one\ntwo\n", ""),
        (("-n", "ns", "-l", "app=web", "-c", "app", "--prefix"),
         "[pod/two/app] app one\n[pod/two/app] two\n[pod/three/app] app one\n[pod/three/app] two\n", ""),
        (("-l", "app=web"), "", "edgecore: no pods in namespace default have app=web\n"),
        (("ns/three", "--all-containers", "--ignore-errors"), "app one\ntwo\n",
         "edgecore: error: the container is waiting to start\n"),
    ],
)  # fmt: skip
def test_logs_are_printed(
    stub: Stub, tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], printed: str,
    remark: str,
) -> None:  # fmt: skip
    assert run(tmp_path, "logs", *arguments) == ExitCode.OK
    assert capfd.readouterr() == (printed, remark)


def test_several_logs_are_followed_at_once(stub: Stub, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """In whole lines, until all have ended."""
    assert run(tmp_path, "logs", "-f", "ns/two", "--all-containers", "--prefix") == ExitCode.OK
    lines = capfd.readouterr().out.splitlines()
    assert sorted(lines) == [
        "[pod/two/app] app one", "[pod/two/app] two", "[pod/two/side] side one", "[pod/two/side] two",
    ]  # fmt: skip
    assert all(request.flag("follow") for request in stub.asked if request.parts[0] == "containerLogs")


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("ns/three", "--all-containers"), ExitCode.REFUSED, "is waiting to start"),
        (("-f", "ns/three", "--all-containers"), ExitCode.REFUSED, "is waiting to start"),
        (("-f", "ns/two", "--all-containers", "--max-log-requests", "1"), ExitCode.REFUSED, "--max-log-requests 2"),
        (("ns/p", "-l", "a=b"), ExitCode.USAGE, "a pod and a selector"),
        (("ns/p", "app", "-c", "app"), ExitCode.USAGE, "named twice"),
        (("ns/p", "-c", "app", "--all-containers"), ExitCode.USAGE, "--all-containers"),
        ((), ExitCode.USAGE, "POD [CONTAINER]"),
    ],
)
def test_what_cannot_be_shown_is_reported(
    stub: Stub, tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, says: str
) -> None:
    assert run(tmp_path, "logs", *arguments) == status
    assert says in capfd.readouterr().err
