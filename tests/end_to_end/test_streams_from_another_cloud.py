"""Logs, commands and the page at the cloudcore to which the node is not connected: two on one database, with TLS."""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.machine import Cloud, Machine
from tests.end_to_end.pods import container, is_ready, pod
from tests.end_to_end.processes import REPOSITORY, Process, run_program, wait_until
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

SCRIPT = "mkdir /www; echo from the pod > /www/index.html; echo begun; exec httpd -f -p 8080 -h /www"


@pytest.fixture
def other(stopped_machine: Machine) -> Iterator[Cloud]:
    """A second cloudcore; the node, which runs the pod p, has joined the first, and has its tunnel there."""
    machine = stopped_machine
    directory = machine.directory / "other"
    directory.mkdir()
    (directory / "cloud-tls").symlink_to(machine.directory / "cloud-tls")
    made = Cloud(directory)
    made.options = ["--database", str(machine.directory / "cloud.db")]
    machine.edge.tunnel_port = free_port()
    machine.cloud.options = ["--tunnel-listen", f"127.0.0.1:{machine.edge.tunnel_port}"]
    try:
        for cloud in (machine.cloud, made):
            cloud.tls_options = ["--router-listen", f"127.0.0.1:{free_port()}"]
            cloud.start()
        assert machine.edge.join(machine.cloud, machine.cloud.client.token(3600.0)).returncode == ExitCode.OK
        machine.edge.run()
        machine.cloud.apply(pod("p", container(SCRIPT)))
        machine.cloud.pods.wait("p", is_ready)
        yield made
    finally:
        made.kill()


def ask(cloud: Cloud, command: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command at a cloudcore."""
    return run_program("cloudcore", command, "--socket", str(cloud.socket), *words)


@contextmanager
def forwarded(cloud: Cloud) -> Iterator[str]:
    """A local port that leads to the pod; yield its URL."""
    arguments = ["port-forward", "--socket", str(cloud.socket), "p", ":8080"]
    command = [sys.executable, "-m", "modules.processes.cloudcore", *arguments]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as forwarder:
        assert forwarder.stdout is not None
        first = forwarder.stdout.readline()
        found = re.match(r"Forwarding from (127\.0\.0\.1:\d+) -> 8080", first)
        assert found, first
        yield f"http://{found[1]}/"
        forwarder.send_signal(signal.SIGINT)


@contextmanager
def page(cloud: Cloud) -> Iterator[tuple[str, dict[str, str]]]:
    """The page of a cloudcore; yield its origin, and a session's headers."""
    served = Process(
        "modules.processes.cloudcore", ["page", "--socket", str(cloud.socket)], cloud.socket.with_name("page")
    )
    try:
        wait_until(lambda: "\n" in served.text() or not served.runs, "the address is printed")
        address, _, token = served.text().split()[0].partition("#")
        origin = address.partition("/page")[0]
        headers = {"Origin": origin, "Sec-Fetch-Site": "same-origin", "X-Edgecore-Page": "1"}
        body = json.dumps({"token": token}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{origin}/page/v1/session", body, headers)) as answer:  # noqa: S310
            yield origin, headers | {"Authorization": f"Bearer {json.load(answer)['key']}"}
    finally:
        served.signal(signal.SIGTERM)
        assert served.wait() == ExitCode.OK, served.tail()


@pytest.mark.parametrize("runtime", ["oci"], indirect=True)
def test_streams_find_their_way(stopped_machine: Machine, other: Cloud) -> None:
    """Until the cloudcore that has the node is gone: then it is named."""
    wait_until(lambda: ask(other, "logs", "p").stdout == "begun\n", "the way to the node is known")
    done = ask(other, "exec", "p", "--", "sh", "-c", "echo got; echo bad >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, "got\n", "bad\n")
    with forwarded(other) as url:
        for _ in "ab":
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:  # noqa: S310 - of this machine
                assert answer.read() == b"from the pod\n"
    assert "Taken: the agent has the pod" in ask(other, "why", "pod", "p").stdout
    with page(other) as (origin, headers):
        asked = urllib.request.Request(f"{origin}/page/v1/explain/default/p", headers=headers)  # noqa: S310
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:  # noqa: S310 - of this machine
            assert b"the agent has the pod" in answer.read()
    assert re.fullmatch(r"p +\d+m +\d+Mi\n", ask(other, "top", "pods", "--no-headers").stdout)
    holder = stopped_machine.cloud.client.cloudcores().own
    stopped_machine.edge.kill()
    stopped_machine.cloud.kill()
    said = ask(other, "logs", "p")
    assert said.returncode != 0
    assert f"cloudcore {holder}, to which it is connected, cannot be reached from here" in said.stderr
