"""What the paths answer, from snapshots and a runtime in memory, without a socket."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beehive import ModuleName
from beehive.http.errors import HttpStatusError
from beehive.http.responses import Reply, Response, Stream, Takeover
from beehive.http.router import HttpRoute, Router
from beehive.simulation import Simulation
from beehive.slot import Readiness, State
from beehive.trace.secret_forms import without_forms
from edged.cri.contract import ContainerId, ExecResult, SandboxId
from edged.cri.errors import NotFoundError, UnavailableError
from edged.pods.labels import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID
from edged.server.container_logs import MOST_REDACTED
from edged.server.healthz import stuck_sync_loop
from edged.server.routes import acting_routes, reading_routes
from edged.server.snapshots import Snapshots
from edged.server.streaming import StreamingSettings
from modules.apimachinery.types import Pod, from_value
from modules.lab.doubles.container_runtime import FakeRuntime
from protos.cri.v1 import api_pb2 as cri
from protos.status import StatusCode
from tests.beehive.http.requests import parse
from tests.support.patience import PATIENCE

LABELS = {POD_NAME: "p", POD_NAMESPACE: "ns", POD_UID: "u"}


class Modules:
    """The part of a hive that is asked."""

    def __init__(self) -> None:
        self.states = {ModuleName.EDGED: Readiness(State.READY), ModuleName.METAMANAGER: Readiness(State.READY)}

    def readiness(self) -> dict[ModuleName, Readiness]:
        """How they are."""
        return self.states


class Node:
    """A server's inside: everything but the sockets."""

    def __init__(self, directory: Path) -> None:
        self.simulation = Simulation()
        self.runtime = FakeRuntime(self.simulation, ["image"])
        self.snapshots = Snapshots()
        self.snapshots.runtime = self.runtime
        self.modules = Modules()
        self.directory = directory
        self.container = self._start()
        self.publish("running")

    def _start(self) -> ContainerId:
        config = cri.PodSandboxConfig(
            metadata=cri.PodSandboxMetadata(name="p", namespace="ns", uid="u"),
            labels=LABELS, log_directory=str(self.directory),
        )  # fmt: skip
        self.sandbox = self.runtime.run_pod_sandbox(config)
        made = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name="app"), image=cri.ImageSpec(image="image"), log_path="app/0.log",
            labels={**LABELS, CONTAINER_NAME: "app"},
        )  # fmt: skip
        container = self.runtime.create_container(self.sandbox, made, config)
        self.runtime.start_container(container)
        return container

    def publish(self, state: str) -> None:
        """The pod is known, its container is in that state."""
        status = {"name": "app", "containerID": f"fake://{self.container}", "state": {state: {}}}
        self.snapshots.pods = (
            from_value(
                Pod,
                {
                    "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
                    "spec": {"containers": [{"name": "app", "image": "image"}]},
                    "status": {"containerStatuses": [status]},
                },
            ),
        )

    def ask(self, target: str, *headers: str, method: str = "GET", **settings: Any) -> Reply:
        """What is replied; refusals as the answer that they become."""
        head = "\r\n".join([f"{method} {target} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""])
        try:
            return Router(self._routes(**settings)).serve(parse(head.encode()))
        except HttpStatusError as refusal:
            return Response(refusal.status, "", str(refusal).encode())

    def answer(self, target: str, *headers: str, method: str = "GET", **settings: Any) -> tuple[int, str]:
        """Status and body."""
        reply = self.ask(target, *headers, method=method, **settings)
        assert isinstance(reply, Response)
        return reply.status, reply.body.decode()

    def _routes(self, *, debugging: bool = True, redirect: bool = True) -> list[HttpRoute]:
        clock = self.simulation.clock
        reading = reading_routes(
            self.snapshots, self.modules, clock,  # type: ignore[arg-type]
            metrics=lambda: b"figures", configuration={"maxPods": 110}, sync_period=60.0, debugging=debugging,
        )  # fmt: skip
        return reading + acting_routes(self.snapshots, clock, StreamingSettings(redirect=redirect), debugging=debugging)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node with one pod, whose container runs."""
    made = Node(tmp_path)
    yield made
    made.simulation.close()


def test_the_pods_as_edged_knows_them(node: Node) -> None:
    listed = json.loads(node.answer("/pods")[1])
    assert (listed["kind"], [each["metadata"]["name"] for each in listed["items"]]) == ("PodList", ["p"])
    node.snapshots.pods = ()
    assert json.loads(node.answer("/pods")[1])["items"] == []


def test_the_pods_as_the_runtime_knows_them(node: Node) -> None:
    """Including pods that the cloud does not know, without ended ones."""
    node.snapshots.pods = ()
    (running,) = json.loads(node.answer("/runningpods")[1])["items"]
    assert running["metadata"] == {"name": "p", "namespace": "ns", "uid": "u", "creationTimestamp": None}
    assert running["spec"]["containers"] == [{"name": "app", "image": "image", "resources": {}}]
    waiting = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="later"), image=cri.ImageSpec(image="image"), labels=LABELS
    )
    node.runtime.create_container(node.sandbox, waiting, cri.PodSandboxConfig())
    assert json.loads(node.answer("/runningpods")[1])["items"] == [running]
    node.runtime.stop_pod_sandbox(SandboxId(node.sandbox))
    assert json.loads(node.answer("/runningpods")[1])["items"] == []


def test_the_configuration_is_the_kubelets(node: Node) -> None:
    assert json.loads(node.answer("/configz")[1]) == {"kubeletconfig": {"maxPods": 110}}


def test_figures_are_prometheus_text(node: Node) -> None:
    assert node.answer("/metrics") == (200, "figures")


def test_ping_is_always_ok(node: Node) -> None:
    assert node.answer("/healthz/ping") == (200, "ok")


def test_a_node_is_well_when_its_modules_and_its_loop_are(node: Node) -> None:
    assert node.answer("/healthz") == (503, "syncloop: the runtime has not been looked at yet\n")
    node.snapshots.relisted_at = node.simulation.clock.monotonic()
    assert node.answer("/healthz") == node.answer("/healthz/syncloop") == (200, "ok")
    node.modules.states[ModuleName.METAMANAGER] = Readiness(State.STARTING, "the store is locked")
    status, text = node.answer("/healthz")
    assert (status, "metamanager" in text, "locked" in text) == (503, True, True)
    assert node.answer("/healthz/syncloop") == (200, "ok")


def test_a_stuck_loop_is_reported(node: Node) -> None:
    """After five minutes, the kubelet's bound with a sync period of one."""
    node.snapshots.relisted_at = node.simulation.clock.monotonic() - 299
    assert node.answer("/healthz/syncloop") == (200, "ok")
    node.snapshots.relisted_at = node.simulation.clock.monotonic() - 301
    assert node.answer("/healthz/syncloop") == (503, "the last look at the runtime ended 301 s ago\n")
    assert node.answer("/healthz")[0] == 503


def test_a_loop_with_a_long_period_is_stuck_after_two() -> None:
    assert not stuck_sync_loop(0.0, 400.0, 200.0)
    assert stuck_sync_loop(0.0, 401.0, 200.0)


def test_a_node_without_edged_has_no_loop(node: Node) -> None:
    del node.modules.states[ModuleName.EDGED]
    assert node.answer("/healthz") == (200, "ok")


class Reader:
    """Goes after so many waits; each time a step is made first."""

    def __init__(self, *steps: Any) -> None:
        self._steps = list(steps)

    def gone_within(self, _seconds: float, wake: int | None = None) -> bool:
        """Make a step."""
        if not self._steps:
            return True
        self._steps.pop(0)()
        return False


def log(node: Node, text: str) -> None:
    """The container prints a line."""
    file = node.directory / "app" / "0.log"
    file.parent.mkdir(exist_ok=True)
    with file.open("a") as stream:
        stream.write(f"2026-11-20T05:00:00.000000000Z stdout F {text}\n")


def shown(reply: Reply, *steps: Any) -> str:
    """What a stream gives."""
    assert isinstance(reply, Stream), reply
    text = b"".join(reply.pieces(Reader(*steps))).decode()
    reply.done()
    return text


def test_the_log_of_a_container(node: Node) -> None:
    log(node, "one")
    log(node, "two")
    assert shown(node.ask("/containerLogs/ns/p/app")) == "one\ntwo\n"
    assert shown(node.ask("/containerLogs/ns/p/app?tailLines=1")) == "two\n"


def test_a_log_without_secrets_is_short_and_whole(node: Node) -> None:
    """Values that the process knows, and secrets by their form, also in a line that is cut."""
    node.snapshots.without_secrets = lambda text: without_forms(text.replace("hunter22", "redacted:1"))
    for line in ("connecting to https://u:p@db", "refused: hunter22"):
        log(node, line)
    asked = "/containerLogs/ns/p/app?redact=true"
    shown_lines = "connecting to https://(left out)@db\nrefused: redacted:1\n"
    assert node.answer(f"{asked}&follow=true") == (200, shown_lines)
    assert node.answer(f"{asked}&limitBytes=40")[1] == "connecting to https://(left out)@db\n"
    for _ in range(5):
        log(node, "x" * 16_000)
    assert len(node.answer(f"{asked}&limitBytes=999999")[1]) <= MOST_REDACTED


def test_a_log_is_followed_until_the_container_ends(node: Node) -> None:
    log(node, "one")
    reply = node.ask("/containerLogs/ns/p/app?follow=true")
    steps = (lambda: log(node, "two"), lambda: node.publish("terminated"), lambda: pytest.fail("it goes on"))
    assert shown(reply, *steps) == "one\ntwo\n"


@pytest.mark.parametrize(
    ("target", "status", "says"),
    [
        ("/containerLogs/ns/p/app", 404, "No such file"),
        ("/containerLogs/ns/p/other", 404, "it has app"),
        ("/containerLogs/ns/q/app", 404, "ns/q"),
        ("/containerLogs/ns/p/app?tailLines=x", 400, "tailLines"),
        ("/containerLogs/ns/p/app?tailLines=-1", 422, "tailLines"),
        ("/containerLogs/ns/p/app?previous=true", 400, "previous"),
    ],
)
def test_a_log_that_cannot_be_had(node: Node, target: str, status: int, says: str) -> None:
    answer = node.answer(target)
    assert (answer[0], says in answer[1]) == (status, True), answer


@pytest.mark.parametrize(
    ("call", "target", "method"),
    [
        ("container_status", "/containerLogs/ns/p/app", "GET"),
        ("list_containers", "/runningpods", "GET"),
        ("exec_sync", "/run/ns/p/app?cmd=true", "POST"),
        ("exec_url", "/exec/ns/p/app?command=true&output=1", "POST"),
    ],
)
def test_without_the_runtime(node: Node, call: str, target: str, method: str) -> None:
    """The runtime's answer decides the status; before edged runs there is no runtime."""
    for error, status in ((UnavailableError, 503), (NotFoundError, 404)):
        code = StatusCode.UNAVAILABLE if status == 503 else StatusCode.NOT_FOUND
        node.runtime.fail(call, error(call, "c", code, "away"))
        assert node.answer(target, "Upgrade: websocket", method=method)[0] == status
    node.snapshots.runtime = None
    says = (503, "edged does not run (it starts, or was stopped)")
    assert node.answer(target, "Upgrade: websocket", method=method) == says


UPGRADE = "Upgrade: websocket"


def place(node: Node, target: str, *headers: str) -> tuple[int, str]:
    """Status and where a client is sent."""
    reply = node.ask(target, UPGRADE, *headers, method="POST")
    assert isinstance(reply, Response)
    return reply.status, reply.location or reply.body.decode()


def test_a_command_with_its_streams(node: Node) -> None:
    node.runtime.streaming_url = "http://127.0.0.1:1/exec/token"
    target = "/exec/ns/p/app?command=sh&command=-c&command=a%20b&input=1&output=1&error=1"
    assert place(node, target) == (302, "http://127.0.0.1:1/exec/token")
    assert node.runtime.asked == (node.container, ("sh", "-c", "a b"), (True, True, True, False))


def test_with_a_terminal_there_are_no_errors_apart(node: Node) -> None:
    assert place(node, "/attach/ns/p/app?stdin=true&stdout=true&stderr=true&tty=true")[0] == 302
    assert node.runtime.asked == (node.container, (True, True, False, True))


def test_ports_go_to_the_sandbox(node: Node) -> None:
    assert place(node, "/portForward/ns/p?port=80&port=8080,9090")[0] == 302
    assert node.runtime.asked == (node.sandbox, (80, 8080, 9090))


def test_a_protocol_that_names_its_ports_later_names_none(node: Node) -> None:
    assert place(node, "/portForward/ns/p")[0] == 302
    assert node.runtime.asked == (node.sandbox, ())


def test_ports_are_forwarded_to_the_newest_of_two_sandboxes_of_one_tick(node: Node) -> None:
    """Or of a clock that was set back."""
    made = {}
    for attempt in (10, 9):
        metadata = cri.PodSandboxMetadata(name="p", namespace="ns", uid="u", attempt=attempt)
        made[attempt] = node.runtime.run_pod_sandbox(cri.PodSandboxConfig(metadata=metadata, labels=LABELS))
    assert place(node, "/portForward/ns/p?port=80")[0] == 302
    assert node.runtime.asked == (made[10], (80,))


@pytest.mark.parametrize(
    ("target", "headers", "status", "says"),
    [
        ("/exec/ns/p/app?output=1", (), 400, "a command is required"),
        ("/exec/ns/p/app?command=ls", (), 400, "a stream is required"),
        ("/exec/ns/p/other?command=ls&output=1", (), 404, "it has app"),
        ("/attach/ns/q/app?output=1", (), 404, "ns/q"),
        ("/portForward/ns/p?port=http", (), 400, "ports"),
        ("/portForward/ns/p?port=0", (), 400, "ports"),
        ("/portForward/ns/p?port=65536", (), 400, "ports"),
        ("/portForward/ns/p?port=000080", (), 400, "ports"),
        ("/portForward/ns/p?port=" + "9" * 5000, (), 400, "ports"),
        ("/portForward/ns/p?port=" + ",".join(["80"] * 33), (), 400, "ports"),
        ("/exec/ns/p/app?command=ls&output=1", ("Origin: http://evil.example",), 403, "browsers"),
    ],
)
def test_a_stream_that_is_refused(node: Node, target: str, headers: tuple[str, ...], status: int, says: str) -> None:
    answer = place(node, target, *headers)
    assert (answer[0], says in answer[1]) == (status, True), answer


def test_a_stream_begins_with_an_upgrade(node: Node) -> None:
    assert node.answer("/exec/ns/p/app?command=ls&output=1")[0] == 400


def test_a_pod_without_a_sandbox_has_no_ports(node: Node) -> None:
    node.runtime.stop_pod_sandbox(SandboxId(node.sandbox))
    assert place(node, "/portForward/ns/p?port=80")[0] == 400


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("https://127.0.0.1:1/x", "is not plain HTTP"),
        ("ftp://127.0.0.1:1/b", "is not plain HTTP"),
        ("http:///x", "is not plain HTTP"),
        ("http://[/x", "cannot be read"),
        ("http://127.0.0.1:65536/x", "cannot be read"),
        ("http://127.0.0.1:1/", "does not answer"),
    ],
)
def test_a_streaming_server_that_cannot_be_reached(node: Node, url: str, says: str) -> None:
    node.runtime.streaming_url = url
    status, text = node.answer("/exec/ns/p/app?command=ls&output=1", UPGRADE, redirect=False)
    assert (status, says in text) == (502, True), text


def test_the_connection_to_the_streaming_server_ends_though_nobody_takes_it(node: Node) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        node.runtime.streaming_url = f"http://127.0.0.1:{server.getsockname()[1]}/exec/t"
        reply = node.ask("/exec/ns/p/app?command=ls&output=1", UPGRADE, redirect=False)
        assert isinstance(reply, Takeover)
        with server.accept()[0] as connection:
            connection.settimeout(PATIENCE)
            reply.done()
            assert connection.recv(1) == b""


@pytest.mark.parametrize("url", ["http://a/\r\nSet-Cookie: x", "http://a/x HTTP/1.1"])
def test_an_address_that_is_more_than_one_word_goes_nowhere(node: Node, url: str) -> None:
    node.runtime.streaming_url = url
    assert place(node, "/exec/ns/p/app?command=ls&output=1")[0] == 502


def test_a_command_without_streams(node: Node) -> None:
    node.runtime.on_exec = lambda name, command: ExecResult(f"{name} {'|'.join(command)}".encode(), b"!", 0)
    assert node.answer("/run/ns/p/app?cmd=ls%20-l", method="POST") == (200, "app ls|-l!")
    node.runtime.on_exec = lambda _name, _command: ExecResult(b"", b"no such file", 2)
    assert node.answer("/run/ns/p/app?cmd=ls", method="POST") == (500, "the command ended with 2: no such file")
    node.runtime.on_exec = lambda _name, _command: ExecResult(b"", b"", -1)
    assert node.answer("/run/ns/p/app?cmd=ls", method="POST") == (500, "the command ended with -1: ")
    assert node.answer("/run/ns/p/app?cmd=ls")[0] == 405


def test_paths_with_the_uid_of_the_pod(node: Node) -> None:
    """A kubelet has each path in both forms; the uid of another pod finds none."""
    node.runtime.on_exec = lambda name, _command: ExecResult(name.encode(), b"", 0)
    assert node.answer("/run/ns/p/u/app?cmd=ls", method="POST") == (200, "app")
    assert place(node, "/exec/ns/p/u/app?command=ls&output=1")[0] == 302
    assert place(node, "/attach/ns/p/u/app?output=1")[0] == 302
    assert place(node, "/portForward/ns/p/u?port=80")[0] == 302
    assert node.answer("/run/ns/p/v/app?cmd=ls", method="POST")[0] == 404
    assert place(node, "/portForward/ns/p/v?port=80")[0] == 404


def test_a_command_without_streams_in_our_own_form(node: Node) -> None:
    """Words with blanks, and outputs and code apart."""
    node.runtime.on_exec = lambda _name, command: ExecResult("|".join(command).encode(), b"err", 3)
    target = "/run/ns/p/app?command=echo&command=a%20b"
    status, body = node.answer(target, "Accept: application/json", method="POST")
    assert (status, json.loads(body)) == (200, {"stdout": "ZWNob3xhIGI=", "stderr": "ZXJy", "exit_code": 3})


def test_a_page_of_a_browser_runs_no_command(node: Node) -> None:
    node.runtime.on_exec = lambda _name, _command: ExecResult(b"out", b"", 0)
    status, text = node.answer("/run/ns/p/app?cmd=ls", "Origin: http://evil.example", method="POST")
    assert (status, "out" in text) == (403, False)


def test_a_switched_off_endpoint_is_named(node: Node) -> None:
    """And what the kubelet serves without it goes on."""
    for target in ("/configz", "/runningpods", "/containerLogs/ns/p/app", "/exec/ns/p/app?command=ls&output=1"):
        status, text = node.answer(target, UPGRADE, debugging=False)
        assert (status, "enableDebuggingHandlers" in text) == (405, True)
    assert node.answer("/pods", debugging=False)[0] == 200


def test_unknown_paths_are_answered_with_the_known_ones(node: Node) -> None:
    status, text = node.answer("/spec")
    assert (status, "/containerLogs/{namespace}/{pod}/{container}" in text) == (404, True)
