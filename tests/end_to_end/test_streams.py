"""The stream tunnel from a cloud's end to containers of a real node."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from edgehub.framing import FrameReader, Opcode, Received
from edgehub.framing import frame as client_frame
from modules.streams.frames import Frame, FrameType
from tests.edgehub.clouds import ScriptedCloud
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import container, is_ready, pod
from tests.end_to_end.test_looking_in import edgecore
from tests.modules.edge.edgestream.beds import CloudEnd, connect_frame

WEBSOCKET = {
    "Connection": ["Upgrade"],
    "Upgrade": ["websocket"],
    "Sec-Websocket-Version": ["13"],
    "Sec-Websocket-Key": ["dGhlIHNhbXBsZSBub25jZQ=="],
    "Sec-Websocket-Protocol": ["v4.channel.k8s.io"],
}
STDIN, STDOUT, STDERR, ERROR = range(4)
TICKS = "i=0; while true; do i=$((i+1)); echo tick $i; sleep 0.2; done"


@pytest.fixture
def tunnel(stopped_machine: Machine) -> Iterator[CloudEnd]:
    """The cloud's end of the tunnel of a ready node with the pod p."""
    with ScriptedCloud() as cloud:
        stopped_machine.edge.tunnel_port = cloud.port
        stopped_machine.start()
        end = CloudEnd(cloud.accept())
        stopped_machine.cloud.apply(pod("p", container(TICKS)))
        stopped_machine.cloud.pods.wait("p", is_ready)
        yield end


def channels(tunnel: CloudEnd, number: int) -> dict[int, bytes]:
    """What a command's websocket v4 says on each channel, until the stream ends."""
    data, reason = tunnel.whole(number)
    assert reason == ""
    head, _, body = data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 "), data
    said = dict.fromkeys((STDIN, STDOUT, STDERR, ERROR), b"")
    for event in FrameReader(1 << 20).feed(body):
        if isinstance(event, Received) and event.opcode is Opcode.BINARY:
            said[event.payload[0]] += event.payload[1:]
    return said


def exec_frame(number: int, *words: str, streams: str = "input=1&output=1&error=1") -> Frame:
    """The frame of `kubectl exec` over websocket."""
    query = "&".join([*(f"command={word}" for word in words), streams])
    return connect_frame(number, FrameType.EXEC, "/exec/default/p/app", query, method="GET", header=WEBSOCKET)


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
def test_logs_and_metrics(tunnel: CloudEnd, stopped_machine: Machine) -> None:
    """`kubectl logs -f` follows until its caller leaves, then until the tunnel breaks; the node dials again. A pod that
    is not there, and metrics, answer as over the node's own socket.
    """
    logs = "/containerLogs/default/p/app"
    tunnel.send(connect_frame(1, path=logs, query="follow=true&tailLines=1"))
    first = tunnel.until(1, lambda data: data.count(b"\n") >= 3).split(b"\n")
    assert first[0].startswith(b"tick ")
    assert int(first[1].split()[1]) == int(first[0].split()[1]) + 1
    tunnel.send(Frame(1, FrameType.REMOVE), connect_frame(2, path="/containerLogs/default/nope/app"))
    missing, reason = tunnel.whole(2)
    assert b"no such pod on this node" in missing
    assert reason == "the node answers with status 404"
    tunnel.send(connect_frame(3, FrameType.METRICS, "/metrics/resource"))
    assert b"node_memory_working_set_bytes" in tunnel.whole(3)[0]
    _, metrics = stopped_machine.edge.get("/metrics")
    assert 'edgestream_opened_streams_total{kind="logs"} 2' in metrics
    assert "edgestream_connected 1" in metrics
    with ThreadPoolExecutor(1) as pool:
        doctor = pool.submit(edgecore, stopped_machine, "doctor")
        number = 3
        while wait([doctor], timeout=1.0).not_done:  # the tunnel's reader answers its pings
            number += 1
            tunnel.send(connect_frame(number, FrameType.METRICS, "/metrics/resource"))
            tunnel.whole(number)
    assert "stream tunnel" in doctor.result().stdout
    assert "kubectl" not in doctor.result().stdout


@pytest.mark.parametrize("runtime", ["oci", "embedded"], indirect=True)
def test_exec_and_attach(tunnel: CloudEnd) -> None:
    """`kubectl exec` runs a command with its input, output, errors and exit code; `attach` sees the main process."""
    script = "read+line%3B+echo+got+%24line%3B+echo+bad+%3E%262%3B+exit+3"
    tunnel.send(exec_frame(1, "sh", "-c", script), Frame(1, FrameType.DATA, client_frame(Opcode.BINARY, b"\0hello\n")))
    said = channels(tunnel, 1)
    assert (said[STDOUT], said[STDERR]) == (b"got hello\n", b"bad\n")
    assert json.loads(said[ERROR])["details"]["causes"][0]["message"] == "3"
    header = WEBSOCKET
    tunnel.send(connect_frame(2, FrameType.ATTACH, "/attach/default/p/app", "output=1", method="GET", header=header))
    assert b"tick " in tunnel.until(2, lambda data: data.count(b"tick ") >= 2)
    tunnel.send(Frame(2, FrameType.REMOVE))
    assert tunnel.whole(2)[1] == ""
