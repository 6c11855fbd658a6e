"""Probes and lifecycle hooks of real containers."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import RUN, container, is_ready, mount, pod, restarts_of, status_of
from tests.end_to_end.processes import wait_until

pytestmark = pytest.mark.gives_its_machine_back


FAST = {"periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 60}


class Switch:
    """An HTTP server on this machine whose answers are switched by the test; takes any request for a GET."""

    def __init__(self) -> None:
        self.status = 503
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, suppress(OSError):
                    connection.recv(4096)
                    connection.sendall(f"HTTP/1.1 {self.status} x\r\nContent-Length: 0\r\n\r\n".encode())

    def close(self) -> None:
        """Refuse connections from now on."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._listener.close()


@pytest.fixture
def switch() -> Iterator[Switch]:
    made = Switch()
    yield made
    made.close()


def hosting(directory: Path, script: str = RUN, **fields: Any) -> JsonObject:
    """A pod whose container has a directory of the machine at /host."""
    app = container(script, volumeMounts=[mount("host", "/host")], **fields)
    return pod("p", app, volumes=({"name": "host", "hostPath": {"path": str(directory)}},))


def test_an_http_probe_takes_a_pod_into_service_and_out_of_it(machine: Machine, switch: Switch) -> None:
    """The container goes on all the while."""
    probe = {"httpGet": {"host": "127.0.0.1", "port": switch.port, "path": "/ready"}, **FAST}
    machine.cloud.apply(pod("p", container(readinessProbe=probe)))
    made = machine.cloud.pods.wait("p", lambda obj: bool(status_of(obj).get("started")))
    assert not is_ready(made)
    switch.status = 200
    machine.cloud.pods.wait("p", is_ready)
    switch.status = 500
    unready = machine.cloud.pods.wait("p", lambda obj: not is_ready(obj))
    assert restarts_of(unready) == 0
    assert status_of(unready)["containerID"] == status_of(made)["containerID"]


def test_a_tcp_probe_that_fails_restarts_the_container(machine: Machine, switch: Switch) -> None:
    probe = {"tcpSocket": {"host": "127.0.0.1", "port": switch.port}, **FAST}
    machine.cloud.apply(pod("p", container(livenessProbe=probe)))
    before = machine.cloud.pods.wait("p", is_ready)
    assert restarts_of(before) == 0
    switch.close()
    machine.cloud.pods.wait("p", lambda obj: restarts_of(obj) >= 1)


def test_commands_in_the_container_decide(machine: Machine, tmp_path: Path) -> None:
    """It is ready when it has started, and killed when it says that it is not well."""
    probes = {
        "startupProbe": {"exec": {"command": ["test", "-e", "/host/started"]}, **FAST, "failureThreshold": 600},
        "livenessProbe": {"exec": {"command": ["test", "!", "-e", "/host/sick"]}, **FAST},
    }
    machine.cloud.apply(hosting(tmp_path, "rm -f /host/sick; touch /host/began; " + RUN, **probes))
    made = machine.cloud.pods.wait("p", lambda obj: bool(status_of(obj).get("containerID")))
    assert not is_ready(made)
    (tmp_path / "started").touch()
    machine.cloud.pods.wait("p", is_ready)
    wait_until((tmp_path / "began").exists, "the container will not remove the next file")
    (tmp_path / "sick").touch()
    machine.cloud.pods.wait("p", lambda obj: restarts_of(obj) >= 1 and is_ready(obj))


def test_hooks_come_after_the_start_and_before_the_stop(machine: Machine, tmp_path: Path) -> None:
    """The container gets SIGTERM only after its preStop hook."""
    script = "trap 'echo term >> /host/log; exit 0' TERM; touch /host/up; while true; do sleep 600 & wait $!; done"
    lifecycle = {
        "postStart": {"exec": {"command": ["sh", "-c", "echo start >> /host/log"]}},
        "preStop": {"exec": {"command": ["sh", "-c", "sleep 1; echo stop >> /host/log"]}},
    }
    machine.cloud.apply(hosting(tmp_path, script, lifecycle=lifecycle))
    machine.cloud.pods.wait("p", is_ready)
    wait_until((tmp_path / "up").exists, "the container listens")
    assert (tmp_path / "log").read_text() == "start\n"
    machine.cloud.delete("Pod", "p")
    machine.cloud.pods.wait_gone("p")
    assert (tmp_path / "log").read_text() == "start\nstop\nterm\n"
