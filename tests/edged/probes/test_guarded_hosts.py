"""Hosts that pods name in probes and hooks, against a program of this machine that trusts it, as a mapper does."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from threading import Semaphore, Thread
from typing import Any

import pytest

from edged.probes.sockets import SocketNetwork
from tests.edged.conftest import Bench, pod
from tests.edged.lifecycle.test_ending_pods import going
from tests.support.patience import PATIENCE

NAMES = ["127.0.0.1", "localhost", "127.1", "2130706433", "0.0.0.0", "::ffff:127.0.0.1"]  # noqa: S104 - not listened on
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
ADVICE = "leave out host"


class Neighbour:
    """A listener at 127.0.0.1 that hangs up on who comes, so that no test waits for its answer."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._comers = Semaphore(0)
        self._accepting = Thread(target=self._accept, name="neighbour")
        self._accepting.start()
        self.port = int(self._listening.getsockname()[1])

    def is_reached(self, seconds: float = 0) -> bool:
        """Return whether somebody has connected, or does within some seconds."""
        return self._comers.acquire(timeout=seconds)

    def close(self) -> None:
        """Stop to listen."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._listening.accept()[0].close()
                self._comers.release()


@pytest.fixture
def neighbour() -> Iterator[Neighbour]:
    made = Neighbour()
    yield made
    made.close()


@pytest.fixture
def node(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A node whose probes and hooks are real connections."""
    real = SocketNetwork(bench.bee.clock)
    monkeypatch.setattr(bench.network, "http_get", real.http_get)
    monkeypatch.setattr(bench.network, "tcp_connect", real.tcp_connect)
    bench.start(wait=120)
    return bench


def asking(host: str, port: int, field: str, action: str, **changes: Any) -> dict[str, Any]:
    """A pod whose probe or hook names a host."""
    handler = {action: {"host": host, "port": port}}
    probe = {**handler, "periodSeconds": 1, "failureThreshold": 100}
    asked: dict[str, Any] = {field: probe} if field in PROBES else {"lifecycle": {field: handler}}
    main = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "inf"], **asked}
    return pod(containers=[main], **changes)


def told(node: Bench) -> str:
    """The warnings about the pod, and why its container waited."""
    events = [each["message"] for each in node.meta.events.values() if each["type"] == "Warning"]
    containers = [each for status in node.meta.statuses("web") for each in status.get("containerStatuses") or ()]
    return "\n".join([*events, *(str(each["state"].get("waiting") or "") for each in containers)])


def play(node: Bench, wanted: dict[str, Any]) -> None:
    """Let a pod live for some seconds, and end."""
    node.tell("insert", wanted, wait=3)
    node.tell("update", going(wanted), wait=3)


@pytest.mark.parametrize("host", NAMES)
def test_no_probe_reaches_a_neighbour(node: Bench, neighbour: Neighbour, host: str) -> None:
    play(node, asking(host, neighbour.port, "livenessProbe", "httpGet"))
    assert not neighbour.is_reached()
    assert ADVICE in told(node)


@pytest.mark.parametrize("action", ["httpGet", "tcpSocket"])
@pytest.mark.parametrize("field", [*PROBES, "postStart", "preStop"])
def test_no_handler_reaches_a_neighbour_and_the_pod_tells_why(
    node: Bench, neighbour: Neighbour, field: str, action: str
) -> None:
    """Of a preStop hook the Event says no more than a kubelet's; the node's log does."""
    play(node, asking("127.0.0.1", neighbour.port, field, action))
    assert not neighbour.is_reached()
    assert ("PreStopHook failed" if field == "preStop" else ADVICE) in told(node)


@pytest.mark.parametrize("field", ["livenessProbe", "postStart", "preStop"])
def test_a_pod_on_the_machines_network_reaches_what_it_reaches_itself(
    node: Bench, neighbour: Neighbour, field: str
) -> None:
    play(node, asking("127.0.0.1", neighbour.port, field, "tcpSocket", hostNetwork=True))
    assert neighbour.is_reached(PATIENCE)
    assert told(node).strip() == ""
