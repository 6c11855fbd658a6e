"""edgecore as a process: what it records, where it writes its flight recorder, and that no secret is in any of it."""

import base64
import json
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from beehive.trace import (
    CriCall,
    CriEvent,
    Delivered,
    Direction,
    LinkFrame,
    Note,
    Record,
    StoreCommit,
)
from beehive.trace.reader import read
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore import cli
from modules.processes.edgecore.config.writing import render
from modules.processes.edgecore.trace_commands.selection import head_of
from tests.end_to_end.machine import Edge, Machine
from tests.end_to_end.pods import container, is_ready, mount, pod, restarts_of
from tests.end_to_end.processes import Process, wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest

PASSWORD = "Tr0ub4dor&3-<plantéd>"  # noqa: S105
FILE = "line one of a planted file\nline two of it\n"
PULL = "planted-pull-passw0rd"
PLANTED = [PASSWORD, "Tr0ub4dor", "planted file", PULL]
"""What must be nowhere, as it is or in base64."""


class RecordedEdge(Edge):
    """edgecore with `--record`."""

    record: Path

    def start(self, cloud_address: str) -> None:
        file = self._directory / "edgecore.yaml"
        file.write_text(render(self._config(cloud_address)))
        arguments = ["run", "--config", str(file), "--record", str(self.record)]
        self._process = Process("modules.processes.edgecore", arguments, self._directory / "edgecore.log")

    @property
    def dumps(self) -> list[Path]:
        """The files of the flight recorder."""
        return sorted((self.root / "edged" / "traces").glob("*.trace"))


@pytest.fixture
def edge() -> Iterator[tuple[Machine, RecordedEdge]]:
    """A machine with a ready node that is recorded."""
    with closing(Machine(EmbeddedUnderTest())) as machine:
        recorded = RecordedEdge(machine.directory, machine.runtime)
        recorded.record = machine.directory / "run.trace"
        machine.edge = recorded
        machine.start()
        yield machine, recorded


def secrets() -> list[dict[str, Any]]:
    """A secret with a password and a file, and one for pulls."""
    auth = base64.b64encode(f"robot:{PULL}".encode()).decode()
    pull = {"auths": {"https://index.docker.io/v1/": {"username": "robot", "password": PULL, "auth": auth}}}
    return [
        _secret("s", "Opaque", {"password": PASSWORD, "file": FILE}),
        _secret("pull", "kubernetes.io/dockerconfigjson", {".dockerconfigjson": json.dumps(pull)}),
    ]


def _secret(name: str, kind: str, data: dict[str, str]) -> dict[str, Any]:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind, "data": encoded}


def telltale(directory: Path) -> dict[str, Any]:
    """A pod that has the secret in its environment, arguments and files, and prints it before it fails. Its image is
    pulled with credentials.

    It fails on demand, by a file in the directory, and no worker looks any more: a relist finds it.
    """
    env = [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}}]
    tells = container(
        'cat /secret/file; echo "password is $PASSWORD" | tee /dev/termination-log;'
        " until [ -e /host/fail ]; do sleep 0.05; done; exit 1",
        name="tells",
        imagePullPolicy="Always",
        env=env,
        args=["--url=db://user:$(PASSWORD)@host"],
        volumeMounts=[mount("s", "/secret"), mount("host", "/host")],
        terminationMessagePolicy="FallbackToLogsOnError",
    )
    volumes: tuple[dict[str, Any], ...] = (
        {"name": "s", "secret": {"secretName": "s"}},
        {"name": "host", "hostPath": {"path": str(directory)}},
    )
    return pod("telltale", container(envFrom=[{"secretRef": {"name": "s"}}]), tells, volumes=volumes,
               imagePullSecrets=[{"name": "pull"}])  # fmt: skip


def run_telltale(machine: Machine, directory: Path) -> None:
    """Until it has failed and was started again."""
    machine.cloud.apply(*secrets(), telltale(directory))
    machine.cloud.pods.wait("telltale", is_ready)
    (directory / "fail").touch()
    machine.cloud.pods.wait("telltale", lambda obj: restarts_of(obj, "tells") >= 1)


def records_of(path: Path) -> list[Record]:
    """All that a trace holds."""
    with read(path) as trace:
        records = list(trace)
        assert not trace.damage
    return records


def _number_of(path: Path) -> int:
    """How many records there are, up to where the file is whole."""
    with read(path) as trace:
        return sum(1 for _ in trace)


def assert_no_secret(path: Path) -> None:
    """No planted byte is in the file, in any form of a secret on its way."""
    data = path.read_bytes()
    for planted in PLANTED:
        for form in (planted.encode(), json.dumps(planted)[1:-1].encode(), base64.b64encode(planted.encode())[:-4]):
            assert form not in data, f"{form!r} is in {path.name}"


def test_a_run_is_recorded_whole_and_without_a_secret(edge: tuple[Machine, RecordedEdge], tmp_path: Path) -> None:
    """Frames, messages, calls and commits of a pod that does its best to give its secret away."""
    machine, recorded = edge
    run_telltale(machine, tmp_path)
    recorded.process.signal(signal.SIGTERM)
    assert recorded.process.wait() == ExitCode.OK
    assert recorded.record.stat().st_mode & 0o777 == 0o600
    assert_no_secret(recorded.record)
    records = records_of(recorded.record)
    kinds = {type(record) for record in records}
    assert kinds >= {Delivered, CriCall, CriEvent, LinkFrame, StoreCommit, Note}
    assert {record.direction for record in records if isinstance(record, LinkFrame)} == set(Direction)
    calls = [record for record in records if isinstance(record, CriCall)]
    created = [call for call in calls if call.method == "create_container"]
    pulls = [json.loads(call.request) for call in calls if call.method == "pull_image"]
    assert {(pull.get("auth") or {}).get("username") for pull in pulls} == {"robot"}
    _assert_redacted_environment(json.loads(created[0].request), json.loads(created[1].request))
    _assert_one_story(records)


def _assert_redacted_environment(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Both containers have the same password, and that can still be seen."""
    by_name = [{each["key"]: each["value"] for each in request["config"]["envs"]} for request in (first, second)]
    [value] = {env.get("PASSWORD") or env["password"] for env in by_name}
    assert value.startswith("redacted:")


def _assert_one_story(records: list[Record]) -> None:
    """From the start of the container back over its causes, there is the frame that brought the pod."""
    by_span = {record.span: record for record in records if record.span}
    started = next(record for record in records if isinstance(record, CriCall) and record.method == "start_container")
    chain: list[Record] = [started]
    while chain[-1].cause in by_span:
        chain.append(by_span[chain[-1].cause])
    frame = chain[-1]
    assert isinstance(frame, LinkFrame), [type(record).__name__ for record in chain]
    assert head_of(frame).resources == ("default/pod/telltale",)
    assert frame.span == started.trace


def test_the_flight_recorder_is_written_when_asked_and_on_a_signal(
    edge: tuple[Machine, RecordedEdge], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`edgecore trace dump` says which file; SIGUSR2 makes another; both are whole and hold no secret."""
    machine, recorded = edge
    run_telltale(machine, tmp_path)
    copy = machine.directory / "copy.trace"
    assert cli.main(["trace", "dump", "--root", str(recorded.root), "-o", str(copy)]) == ExitCode.OK
    assert capsys.readouterr().out == f"{copy}\n"
    recorded.process.signal(signal.SIGUSR2)
    wait_until(lambda: len(recorded.dumps) == 2, "the signal's file")
    recorded.process.signal(signal.SIGTERM)
    assert recorded.process.wait() == ExitCode.OK
    assert copy.read_bytes() == recorded.dumps[0].read_bytes()
    for path in (copy, *recorded.dumps):
        assert_no_secret(path)
        assert path.stat().st_mode & 0o777 == 0o600
    assert {type(record) for record in records_of(copy)} >= {Delivered, CriCall, LinkFrame, StoreCommit}


def test_a_recorded_run_that_was_killed_is_read_to_its_end_and_goes_on_in_the_same_file(
    edge: tuple[Machine, RecordedEdge],
) -> None:
    """SIGKILL, then another start with the same file: both runs are in it, on one axis of time."""
    machine, recorded = edge
    machine.cloud.apply(pod("p"))
    machine.cloud.pods.wait("p", is_ready)
    wait_until(lambda: _number_of(recorded.record) > 20, "the recorder has written")
    recorded.kill()
    before = _number_of(recorded.record)
    machine.start_edge()
    wait_until(lambda: is_ready(recorded.pods().get("p", {})), "the pod is known again")
    recorded.process.signal(signal.SIGTERM)
    recorded.process.wait()
    with read(recorded.record) as trace:
        times = [record.time for record in trace]
        assert len(trace.runs) == 2
    assert len(times) > before + 10
    assert times[before] > times[before - 1]


def test_nobody_listens_and_a_file_that_is_no_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both errors have the remedy, and the exit status is not 0."""
    (tmp_path / "edged").mkdir()
    assert cli.main(["trace", "dump", "--root", str(tmp_path)]) == ExitCode.START_FAILED
    assert "is edgecore running?" in capsys.readouterr().err
    (tmp_path / "text").write_text("hello")
    assert cli.main(["trace", "show", str(tmp_path / "text")]) == ExitCode.USAGE
    assert "wanted" in capsys.readouterr().err
