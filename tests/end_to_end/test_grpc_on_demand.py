"""gRPC's library takes 21 MB and its servers never sleep: a node with the process runtime has neither without need."""

import signal
import stat
from contextlib import closing
from pathlib import Path

import grpc

from protos.cri.v1 import api_pb2 as cri
from tests.bench.subject import inner_endpoint
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import RUN, container, is_ready, pod
from tests.end_to_end.runtimes import EmbeddedUnderTest
from tests.support.cri_calls import runtime_calls
from tests.support.patience import PATIENCE


def test_a_node_that_runs_pods_loads_grpc_with_the_first_call_on_its_cri_socket() -> None:
    """The socket is there from the start, for its owner only, serves as many clients as come, and goes at the end."""
    runtime = EmbeddedUnderTest()
    with closing(Machine(runtime)) as machine:
        machine.start()
        machine.cloud.apply(pod("p", container(RUN)))
        machine.cloud.pods.wait("p", is_ready)
        assert not _has_grpc(machine.edge.process.pid)
        endpoint = inner_endpoint(machine, runtime)
        socket = Path(endpoint.removeprefix("unix://"))
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
        for _ in range(2):
            with grpc.insecure_channel(endpoint) as channel:
                request = cri.ListPodSandboxRequest()
                answer = runtime_calls(channel)["ListPodSandbox"](request, timeout=PATIENCE)
                assert [sandbox.metadata.name for sandbox in answer.items] == ["p"]
        assert _has_grpc(machine.edge.process.pid)
        machine.edge.process.signal(signal.SIGTERM)
        assert machine.edge.process.wait() == 0
        assert not socket.exists()


def _has_grpc(pid: int) -> bool:
    return "cygrpc" in Path(f"/proc/{pid}/maps").read_text()
