"""A recorded runtime behaves like the runtime, and records each call once, without secrets."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn
from unittest.mock import patch

import pytest

from beehive.simulation import Simulation
from beehive.trace.entries import EntrySink
from beehive.trace.flight_recorder import PackedBlock
from beehive.trace.format import CriCall, CriEvent
from beehive.trace.redact import Redactor
from beehive.trace_context import Cause, current_context, resumed
from edged.cri import ContainerId, ContainerRuntime, CriError, SandboxId, Streams
from edged.cri.errors import UnavailableError
from edged.cri.recording import CriEntry, RecordingRuntime, recording
from edged.cri.recording_events import ENDED, LISTENING, OPENED, StreamEntry
from modules.lab.doubles.container_runtime import FakeRuntime
from protos.cri.v1 import api_pb2 as pb
from protos.status import StatusCode

PASSWORD = "planted-password"  # noqa: S105


class Recorded:
    """A fake runtime, its recorded form, and the records."""

    def __init__(self) -> None:
        simulation = Simulation()
        self.entries: list[CriEntry | StreamEntry] = []
        self.double = FakeRuntime(simulation, images=["image"])
        spans = iter(range(1, 1000))
        self.redactor = Redactor()
        sink = EntrySink(simulation.clock, self.redactor, lambda: next(spans), self.entries.append)
        self.runtime = recording(self.double, sink)

    def calls(self) -> list[CriCall]:
        """As they are written, after the flight recorder has packed them."""
        calls = [entry for entry in PackedBlock.of(self.entries, 0).entries() if isinstance(entry, CriEntry)]
        return [entry.record(entry.time, self.redactor) for entry in calls]


@pytest.fixture
def recorded() -> Recorded:
    """Nothing called yet."""
    return Recorded()


def sandbox_config() -> pb.PodSandboxConfig:
    """Of some pod."""
    return pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name="p", namespace="default", uid="u"))


def container_config(*arguments: str, **env: str) -> pb.ContainerConfig:
    """Of a container with arguments and an environment."""
    envs = [pb.KeyValue(key=key, value=value.encode()) for key, value in env.items()]
    image = pb.ImageSpec(image="image")
    return pb.ContainerConfig(metadata=pb.ContainerMetadata(name="c"), image=image, args=arguments, envs=envs)


def test_it_has_every_method_of_the_contract() -> None:
    wanted = {name for name, _ in inspect.getmembers(ContainerRuntime, inspect.isfunction) if not name.startswith("_")}
    assert wanted <= set(dir(RecordingRuntime))


def test_a_call_is_recorded_with_request_answer_and_cause(recorded: Recorded) -> None:
    with resumed(Cause(span=77, trace=70)):
        sandbox = recorded.runtime.run_pod_sandbox(sandbox_config(), "handler")
        container = recorded.runtime.create_container(sandbox, container_config("a"), sandbox_config())
    assert set(recorded.double.containers) == {container}
    run, create = recorded.calls()
    assert (run.method, run.span, run.cause, run.trace, run.error) == ("run_pod_sandbox", 1, 77, 70, "")
    assert run.answer == f'"{sandbox}"'.encode()
    assert b'"runtime_handler":"handler"' in run.request
    assert f'"sandbox_id":"{sandbox}"'.encode() in create.request


def test_an_error_of_a_call_is_raised_and_recorded(recorded: Recorded) -> None:
    with pytest.raises(CriError) as raised:
        recorded.runtime.container_status(ContainerId("nowhere"), verbose=True)
    [call] = recorded.calls()
    assert (call.method, call.error, call.answer) == ("container_status", type(raised.value).__name__, b"")
    assert call.detail == str(raised.value)
    assert b'"verbose":true' in call.request


def test_an_unchanged_list_is_kept_once_and_reported_each_time(recorded: Recorded) -> None:
    """A list by a filter is another one."""
    recorded.runtime.run_pod_sandbox(sandbox_config())
    for _ in range(2):
        assert len(recorded.runtime.list_pod_sandboxes()) == 1
    recorded.runtime.list_pod_sandboxes(pb.PodSandboxFilter(label_selector={"a": "b"}))
    recorded.runtime.list_pod_sandboxes()
    told = [call.answer for call in recorded.calls() if call.method == "list_pod_sandboxes"]
    assert told[0] == told[1] == told[3] != b"[]"
    assert told[2] == b"[]"
    kept = [entry for entry in recorded.entries if isinstance(entry, CriEntry) and entry.method == "list_pod_sandboxes"]
    assert [entry.again for entry in kept] == [False, True, False, True]
    assert kept[0].answer is kept[1].answer
    assert kept[1].size < kept[0].size


def test_an_empty_list_does_not_keep_the_answer_that_it_is_from(recorded: Recorded) -> None:
    """It is a view of its answer, and cannot be packed."""
    empty = pb.ListContainersResponse().containers
    with patch.object(recorded.double, "list_containers", return_value=empty):
        assert recorded.runtime.list_containers() is empty
    [call] = recorded.entries
    assert isinstance(call, CriEntry)
    assert call.answer == ()
    assert PackedBlock.of(recorded.entries, 0).as_they_are == ()
    assert recorded.calls()[0].answer == b"[]"


def test_environment_and_arguments_from_secrets_are_redacted(recorded: Recorded) -> None:
    recorded.redactor.known.learn(PASSWORD.encode())
    recorded.redactor.known.learn(b"on")
    sandbox = recorded.runtime.run_pod_sandbox(sandbox_config())
    config = container_config(
        f"--password={PASSWORD}", SECRET=PASSWORD, INSIDE=f"db://u:{PASSWORD}@h", SHORT="on", PLAIN="plain on"
    )
    recorded.runtime.create_container(sandbox, config, sandbox_config())
    request = recorded.calls()[-1].request.decode()
    mark = recorded.redactor.mark(PASSWORD.encode())
    assert PASSWORD not in request
    assert (f'"--password={mark}"' in request, f'"value":"{mark}"' in request) == (True, True)
    assert f'"value":"db://u:{mark}@h"' in request
    assert f'"value":"{recorded.redactor.mark(b"on")}"' in request
    assert '"value":"plain on"' in request


@pytest.mark.parametrize(
    "auth",
    [
        pb.AuthConfig(username="robot", password=PASSWORD),
        pb.AuthConfig(identity_token=PASSWORD),
        pb.AuthConfig(registry_token=PASSWORD),
        pb.AuthConfig(auth="cm9ib3Q6cGxhbnRlZC1wYXNzd29yZA=="),
    ],
)
def test_credentials_of_pulls_are_redacted(recorded: Recorded, auth: pb.AuthConfig) -> None:
    recorded.runtime.pull_image(pb.ImageSpec(image="other"), auth)
    [call] = recorded.calls()
    assert PASSWORD.encode() not in call.request
    assert b"cGxhbnRlZC1wYXNzd29yZA" not in call.request
    assert b'"image":"other"' in call.request


def test_output_of_commands_is_recorded_as_text(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    from edged.cri import ExecResult  # noqa: PLC0415

    def exec_sync(*_arguments: Any) -> ExecResult:
        return ExecResult(b"\xff out" + b"x" * 1_000_000, f"bad {PASSWORD}".encode(), 3)

    monkeypatch.setattr(recorded.double, "exec_sync", exec_sync)
    recorded.redactor.known.learn(PASSWORD.encode())
    recorded.runtime.exec_sync(ContainerId("c"), ["cat", "x"], 1)
    [call] = recorded.calls()
    assert b'"exit_code":3' in call.answer
    assert PASSWORD.encode() not in call.answer
    assert len(call.answer) < 100_000


def test_removing_a_sandbox_answers_nothing(recorded: Recorded) -> None:
    recorded.runtime.remove_pod_sandbox(SandboxId("nowhere"))
    assert recorded.calls()[0].answer == b"null"


def test_addresses_of_streams_are_not_shown(recorded: Recorded) -> None:
    """The URL allows anybody to run the command; the request is shown."""
    sandbox = recorded.runtime.run_pod_sandbox(sandbox_config())
    container = recorded.runtime.create_container(sandbox, container_config(), sandbox_config())
    recorded.double.streaming_url = "http://127.0.0.1:1/exec/planted-token"
    assert recorded.runtime.exec_url(container, ["ls"], Streams(tty=True)).endswith("planted-token")
    recorded.runtime.attach_url(container, Streams())
    recorded.runtime.port_forward_url(sandbox, [80])
    calls = recorded.calls()[-3:]
    assert {call.answer for call in calls} == {b'"not shown"'}
    assert b'"stdin":false,"stdout":true,"stderr":true,"tty":true' in calls[0].request


def told(recorded: Recorded) -> list[CriEvent]:
    """The record of the stream, as it is written after the flight recorder has packed it."""
    entries = PackedBlock.of(recorded.entries, 0).entries()
    return [entry.record(entry.time, recorded.redactor) for entry in entries if isinstance(entry, StreamEntry)]


def test_events_are_delivered_as_they_come_each_as_a_cause(recorded: Recorded) -> None:
    causes: list[tuple[int, int]] = []
    stopped = pb.ContainerEventResponse(container_id="c", container_event_type=pb.CONTAINER_STOPPED_EVENT)
    stopped.pod_sandbox_status.metadata.uid = "u"
    stopped.pod_sandbox_status.labels["a"] = f"has {PASSWORD}"
    stopped.containers_statuses.add(id="large")
    recorded.redactor.known.learn(PASSWORD.encode())

    def happened(_event: pb.ContainerEventResponse) -> None:
        causes.append((current_context().span, current_context().trace))

    stream = patch.object(recorded.double, "container_events", partial(play, stopped))
    with stream, pytest.raises(UnavailableError):
        recorded.runtime.container_events(lambda: None, happened)
    records = told(recorded)
    assert [record.kind for record in records] == [LISTENING, OPENED, "stopped", ENDED]
    assert records[2].subject == "u"
    assert causes == [(records[2].span, records[2].span)]
    assert b"large" not in records[2].detail
    assert PASSWORD.encode() not in records[2].detail
    assert b'"error":"UnavailableError"' in records[3].detail


def play(
    event: pb.ContainerEventResponse, opened: Callable[[], None], happened: Callable[[pb.ContainerEventResponse], None]
) -> NoReturn:
    """A stream of one event."""
    opened()
    happened(event)
    raise UnavailableError("GetContainerEvents", "", StatusCode.UNAVAILABLE, "gone")
