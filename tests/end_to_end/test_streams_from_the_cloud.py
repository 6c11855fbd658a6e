"""`kubectl logs`, `exec` and `attach` at the embedded API server, for containers of a real node."""

import json
import re
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, IncompleteRead
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import container, is_ready, pod, restarts_of, status_of
from tests.end_to_end.processes import run_program, wait_until
from tests.modules.runtimes.streaming.test_kubectl import TRANSPORTS, RealKubectl
from tests.support.kubectl import Kubectl
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

TICKS = "i=0; while true; do i=$((i+1)); echo tick $i; sleep 0.2; done"
POD = "/api/v1/namespaces/default/pods/p"
STDIN, STDOUT, STDERR, ERROR = range(4)


@pytest.fixture
def api(stopped_machine: Machine) -> Iterator[int]:
    """The port of the API of a cloud whose ready node has a stream tunnel and the pod p."""
    port, stopped_machine.edge.tunnel_port = free_port(), free_port()
    tunnels = f"127.0.0.1:{stopped_machine.edge.tunnel_port}"
    stopped_machine.cloud.options = ["--tunnel-listen", tunnels, "--insecure-port", str(port)]
    stopped_machine.start()
    stopped_machine.cloud.apply(pod("p", container(TICKS)))
    stopped_machine.cloud.pods.wait("p", is_ready)
    yield port


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
def test_logs(api: int, stopped_machine: Machine) -> None:
    """With kubectl's options, and `top`, until the node is lost: then the log breaks off, and the next request
    says why.
    """
    kubectl = Kubectl(api)
    wait_until(lambda: kubectl.ask(f"{POD}/log?tailLines=1").status == 200, "the node has its tunnel")
    wait_until(lambda: kubectl.ask(f"{POD}/log?limitBytes=7").body == "tick 1\n", "the first thing that it has said")
    two = f"{POD}/log?container=app&tailLines=2"
    wait_until(lambda: str(kubectl.ask(two).body).count("tick") == 2, "the container has said two things")
    refused = kubectl.ask(f"{POD}/log?previous=true")
    assert (refused.status, refused.body["reason"]) == (400, "BadRequest")
    connection = HTTPConnection("127.0.0.1", api, timeout=PATIENCE)
    connection.request("GET", f"{POD}/log?follow=true&tailLines=1")
    answer = connection.getresponse()
    assert [answer.readline()[:5] for _ in range(3)] == [b"tick "] * 3
    protocols: list[Any] = ["binary.k8s.io"]
    with connect(f"ws://127.0.0.1:{api}{POD}/log?limitBytes=7", subprotocols=protocols) as messages:
        assert b"".join(each for each in messages if isinstance(each, bytes)) == b"tick 1\n"
    with connect(f"ws://127.0.0.1:{api}/api/v1/namespaces/default/pods?watch=true") as events:
        event = json.loads(events.recv(timeout=PATIENCE))
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "p")
    usage = kubectl.ask("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/p").body
    assert [each["name"] for each in usage["containers"]] == ["app"]
    assert usage["containers"][0]["usage"]["memory"] != "0Ki"
    shown = cloudcore(stopped_machine, "top", "pods", "--no-headers")
    assert re.fullmatch(r"p +\d+m +\d+Mi\n", shown.stdout), shown
    shown = cloudcore(stopped_machine, "logs", "p", "--limit-bytes", "7")
    assert (shown.stdout, shown.stderr) == ("tick 1\n", "")
    stopped_machine.edge.kill()
    with pytest.raises(IncompleteRead):
        answer.read()
    connection.close()
    lost = kubectl.ask(f"{POD}/log")
    assert lost.status == 503
    assert "modules.edgeStream" in lost.body["message"]


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
def test_a_log_goes_on_when_the_node_is_deleted(api: int, stopped_machine: Machine) -> None:
    """The node registers again, keeps its tunnel, and runs its pods on; a kubelet registers at its start only."""
    kubectl = Kubectl(api)
    wait_until(lambda: kubectl.ask(f"{POD}/log?tailLines=1").status == 200, "the node has its tunnel")
    first = stopped_machine.cloud.get("Node", NODE)["metadata"]["uid"]
    connection = HTTPConnection("127.0.0.1", api, timeout=PATIENCE)
    connection.request("GET", f"{POD}/log?follow=true&tailLines=1")
    answer = connection.getresponse()
    before = int(answer.readline().split()[1])
    stopped_machine.cloud.delete("Node", NODE)
    stopped_machine.cloud.mirror("Node").wait(NODE, lambda node: node["metadata"]["uid"] != first)
    assert [int(answer.readline().split()[1]) for _ in range(3)] == [before + 1, before + 2, before + 3]
    connection.close()
    assert str(kubectl.ask(f"{POD}/log?limitBytes=7").body) == "tick 1\n"


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
def test_why_with_the_steps_of_the_node(api: int, stopped_machine: Machine) -> None:
    """Over the tunnel, as long as there is one; then the answer says how old its knowledge is."""
    kubectl = Kubectl(api)
    path = f"/api/v1/nodes/{NODE}/proxy/edgecore/chains/default/p"
    wait_until(lambda: kubectl.ask(path).status == 200, "the node has its tunnel")
    shown = cloudcore(stopped_machine, "why", "pod", "p").stdout
    assert "Taken: the agent has the pod" in shown, shown
    assert shown.count("Started container app") == 1, "the Event is not shown again"
    assert "not known" not in shown
    assert kubectl.ask(f"{path}/more").status == 404
    assert kubectl.ask(path.removesuffix("p") + "none").status == 404
    stopped_machine.edge.kill()
    wait_until(lambda: kubectl.ask(path).status == 503, "the tunnel has ended")

    def is_known_to_be_old() -> bool:
        shown = cloudcore(stopped_machine, "why", "pod", "p").stdout
        assert "Taken: the agent has the pod" not in shown, shown
        return f"was running on {NODE} when it was last heard of" in shown and "is as old as that" in shown

    wait_until(is_known_to_be_old, "its link is known to have ended, too")


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
def test_why_with_the_last_lines_of_a_container_that_crashed(api: int, stopped_machine: Machine) -> None:
    """From both sides, without the secret that it has written."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
    stopped_machine.cloud.apply({**secret, "stringData": {"word": "swordfish-7"}})
    word = {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "word"}}}
    stopped_machine.cloud.apply(pod("crashes", container("echo refused: $WORD; exit 3", env=[word])))
    stopped_machine.cloud.pods.wait("crashes", lambda made: restarts_of(made, "app") > 0)
    kubectl = Kubectl(api)
    path = f"{POD.removesuffix('/p')}/crashes/log?previous=true"
    wait_until(lambda: kubectl.ask(path).body == "refused: swordfish-7\n", "the log, for who may read it")
    asked = (
        cloudcore(stopped_machine, "why", "pod", "crashes"),
        run_program("edgecore", "why", "--config", str(stopped_machine.edge.file), "pod", "default/crashes"),
    )
    for shown in asked:
        assert re.search("The last lines of container app:\n  refused: redacted:[0-9a-f]{16}\n", shown.stdout), shown


def cloudcore(machine: Machine, command: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of the cloud."""
    return run_program("cloudcore", command, "--socket", str(machine.cloud.socket), *words)


@contextmanager
def websocket(port: int, target: str) -> Iterator[ClientConnection]:
    """A command, as clients of websocket v4 begin one."""
    with connect(f"ws://127.0.0.1:{port}{POD}/{target}", subprotocols=["v4.channel.k8s.io"]) as opened:  # type: ignore[list-item]
        yield opened


def channels(connection: ClientConnection) -> dict[int, bytes]:
    """What a command says on each channel, until it has ended."""
    said = dict.fromkeys((STDIN, STDOUT, STDERR, ERROR), b"")
    for message in connection:
        assert isinstance(message, bytes)
        said[message[0]] += message[1:]
    return said


@pytest.mark.parametrize("runtime", ["oci", "embedded"], indirect=True)
def test_exec_and_attach(api: int, stopped_machine: Machine) -> None:
    """A command has its input, output, errors and exit code; attach sees the main process."""
    kubectl = Kubectl(api)
    wait_until(lambda: kubectl.ask(f"{POD}/log?tailLines=1").status == 200, "the node has its tunnel")
    script = "read+line%3B+echo+got+%24line%3B+echo+bad+%3E%262%3B+exit+3"
    words = f"command=sh&command=-c&command={script}"
    with websocket(api, f"exec?{words}&stdin=true&stdout=true&stderr=true") as command:
        command.send(b"\0hello\n")
        said = channels(command)
    assert (said[STDOUT], said[STDERR]) == (b"got hello\n", b"bad\n")
    assert json.loads(said[ERROR])["details"]["causes"][0]["message"] == "3"
    done = cloudcore(stopped_machine, "exec", "p", "--", "sh", "-c", "echo got; echo bad >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, "got\n", "bad\n")
    with websocket(api, "attach?stdout=true") as attached:
        seen = b""
        while seen.count(b"tick ") < 2:
            message = attached.recv(timeout=PATIENCE)
            assert isinstance(message, bytes)
            seen += message[1:]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_kubectl_itself(api: int, stopped_machine: Machine, tmp_path: Path, transport: str) -> None:
    """exec with input, attach, cp both ways and port-forward, of a container that is a plain process."""
    kubectl = RealKubectl(api, tmp_path, transport)
    shell = container("exec sh", name="shell", stdin=True, stdinOnce=True)
    port = free_port()
    stopped_machine.cloud.apply(pod("q", shell, container(f"exec python3 -m http.server -b 127.0.0.1 {port}")))
    stopped_machine.cloud.pods.wait("q", is_ready)
    wait_until(lambda: Kubectl(api).ask(f"{POD}/log?tailLines=1").status == 200, "the node has its tunnel")
    done = kubectl.run("exec", "-i", "p", "--", "sh", "-c", "cat; echo bad >&2; exit 3", given=b"x" * 1_000_000)
    assert (done.stdout, done.stderr[:3], done.returncode) == (b"x" * 1_000_000, b"bad", 3)
    (tmp_path / "sent").write_bytes(b"0123456789" * 100_000)
    assert kubectl.run("cp", str(tmp_path / "sent"), f"default/p:{tmp_path}/there").returncode == 0
    assert kubectl.run("cp", f"default/p:{tmp_path}/there", str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back").read_bytes() == (tmp_path / "sent").read_bytes()
    forwarder = kubectl.begin("port-forward", "q", f":{port}")
    assert forwarder.stdout is not None
    local = forwarder.stdout.readline().split(b":")[1].split()[0].decode()
    with urllib.request.urlopen(f"http://127.0.0.1:{local}/", timeout=PATIENCE) as answer:
        assert b"Directory listing" in answer.read()
    forwarder.kill()
    forwarder.communicate()
    attached = kubectl.run("attach", "-i", "q", "-c", "shell", given=b"echo here; exit 4\n")
    assert attached.stdout == b"here\n"
    ended = stopped_machine.cloud.pods.wait("q", lambda each: restarts_of(each, "shell") == 1)
    assert status_of(ended, "shell")["lastState"]["terminated"]["exitCode"] == 4


_OUTPUT = 8 << 20
"""Bytes of a command: more than the sockets, relays and the runtime on its way hold."""


@pytest.mark.parametrize("runtime", ["oci", "embedded"], indirect=True)
def test_a_slow_reader_has_all_of_a_commands_output(api: int, stopped_machine: Machine) -> None:
    """And the exit code: by the protocols of kubectl over WebSocket, through runtime, node, tunnel and API."""
    kubectl = Kubectl(api)
    wait_until(lambda: kubectl.ask(f"{POD}/log?tailLines=1").status == 200, "the node has its tunnel")
    script = f"head+-c+{_OUTPUT}+%2Fdev%2Fzero%3B+exit+3"
    protocols: list[Any] = ["v4.channel.k8s.io", "v5.channel.k8s.io"]
    for each in protocols:
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
            connection.connect(("127.0.0.1", api))
            url = f"ws://127.0.0.1:{api}{POD}/exec?command=sh&command=-c&command={script}&stdout=true"
            with connect(url, sock=connection, subprotocols=[each], max_queue=1, compression=None) as command:
                said = channels(command)
        assert len(said[STDOUT]) == _OUTPUT, each
        assert json.loads(said[ERROR])["details"]["causes"][0]["message"] == "3"


_SERVER = (
    "mkdir -p /tmp/w/cgi-bin; echo '<a href=\"/more\">more</a>' > /tmp/w/index.html; echo plain > /tmp/w/plain.txt; "
    "printf '#!/bin/sh\\necho Content-Type: text/plain; echo Set-Cookie: a=b; echo; env; cat' > /tmp/w/cgi-bin/env; "
    "chmod +x /tmp/w/cgi-bin/env; httpd -f -p 8080 -h /tmp/w"
)
_SERVICE = {
    "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"},
    "spec": {"selector": {"app": "w"}, "ports": [{"name": "web", "port": 80, "targetPort": 8080}]},
}  # fmt: skip


@pytest.mark.parametrize("runtime", ["oci"], indirect=True)
def test_proxies_of_pods_and_services(api: int, stopped_machine: Machine) -> None:
    """HTTP in and out, without the credentials of the API's client and without the origin of the API."""
    kubectl = Kubectl(api)
    serving = pod("w", container(_SERVER, ports=[{"name": "http", "containerPort": 8080}]))
    serving["metadata"]["labels"] = {"app": "w"}
    stopped_machine.cloud.apply(serving, _SERVICE)
    stopped_machine.cloud.pods.wait("w", is_ready)
    base = "/api/v1/namespaces/default"
    wait_until(lambda: kubectl.ask(f"{base}/pods/w/proxy/plain.txt").body == "plain\n", "the pod serves")
    for name in ("w:8080", "http:w:8080", "w:http"):
        assert kubectl.ask(f"{base}/pods/{name}/proxy/plain.txt") == (200, "plain\n")
    wait_until(lambda: kubectl.ask(f"{base}/services/s:web/proxy/plain.txt").status == 200, "the service has its pod")
    assert kubectl.ask(f"{base}/services/http:s:80/proxy/plain.txt").body == "plain\n"
    page = kubectl.ask(f"{base}/pods/w:8080/proxy/")
    assert page.body == f'<a href="{base}/pods/w:8080/proxy/more">more</a>\n'
    said = kubectl.ask(
        f"{base}/pods/w/proxy/cgi-bin/env?a=b%20c", method="POST", body=b"x" * 100_000,
        Authorization="Bearer none", Cookie="a=b", Content_Type="text/plain",
    )  # fmt: skip
    assert said.body.endswith("x" * 100_000), said
    assert "QUERY_STRING=a=b%20c\n" in said.body
    assert "REQUEST_METHOD=POST\n" in said.body
    assert "Bearer" not in said.body and "COOKIE" not in said.body
    connection = HTTPConnection("127.0.0.1", api, timeout=PATIENCE)
    connection.request("GET", f"{base}/pods/w/proxy/cgi-bin/env")
    answer = connection.getresponse()
    answer.read()
    assert (answer.headers["Content-Security-Policy"], answer.headers["Set-Cookie"]) == ("sandbox", None)
    connection.request("GET", f"{base}/pods/w/proxy?a=b")
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Location"]) == (301, f"{base}/pods/w/proxy/?a=b")
    connection.close()
    refused = kubectl.ask(f"{base}/pods/w:9999/proxy/")
    assert refused.status == 503, refused
    assert "error trying to reach service" in refused.body["message"], refused
    assert kubectl.ask(f"{base}/pods/w/proxy/none").status == 404
