"""What a cloud has said it knows it knows after a restart, whatever ended it; nodes notice nothing of it."""

import json
import threading
from pathlib import Path
from random import Random

import pytest
from websockets.exceptions import WebSocketException

from beehive.errors import BeehiveError
from tests.end_to_end.processes import Process, wait_until
from tests.modules.cloud.objects import configmap, node, pod
from tests.modules.processes.cloudcore.stubs import Edge, Stub, edge_at
from tests.support.control_client import Apply, ControlClient, Get
from tests.support.ports import free_port


def take(edge: Edge, count: int) -> list[str]:
    """Acknowledges as many messages; what they were about."""
    messages = [edge.next() for _ in range(count)]
    for message in messages:
        edge.acknowledge(message)
    edge.ask("default/lease/none", "query")  # answered after the acknowledgements were taken
    return [f"{message.route.operation} {message.route.resource}" for message in messages]


def test_a_manifest_that_went_while_the_cloud_was_down_takes_its_pod_along(tmp_path: Path) -> None:
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / "web.json").write_text(json.dumps(pod(terminationGracePeriodSeconds=0)))
    with Stub(tmp_path, manifests_dir=manifests, database="") as stub, stub.edge() as edge:
        take(edge, 1)
    (manifests / "web.json").unlink()
    with Stub(tmp_path, manifests_dir=manifests, database="") as stub, stub.edge() as edge:
        assert take(edge, 1) == ["delete default/pod/web"]
        assert stub.client.run(Get("pods")) == []


class Killed:
    """`cloudcore run` as a process that is killed and started again on the same port."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.client = ControlClient(directory / "cloud.sock")
        self._address = f"127.0.0.1:{free_port()}"
        self._process: Process | None = None

    @property
    def port(self) -> int:
        return int(self._address.rpartition(":")[2])

    def start(self) -> None:
        ready = self._directory / "address"
        ready.unlink(missing_ok=True)
        arguments = ["run", "--listen", self._address, "--socket", str(self._directory / "cloud.sock")]
        process = Process(
            "modules.processes.cloudcore", [*arguments, "--ready-file", str(ready)], self._directory / "log"
        )
        self._process = process
        wait_until(lambda: ready.exists() or not process.runs, "cloudcore is ready")
        assert process.runs, process.tail()
        self._address = ready.read_text().strip()

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()


@pytest.mark.parametrize("seed", range(2))
def test_a_cloud_that_is_killed_at_any_moment_has_all_answered_writes(tmp_path: Path, seed: int) -> None:
    """A node reports as fast as it is answered; a person applies. What the last OK was for is there afterwards."""
    random = Random(seed)  # noqa: S311 - reproducible on purpose
    cloud = Killed(tmp_path)
    cloud.start()
    try:
        cloud.client.run(Apply([pod()]))
        answered = applied = 0
        for _ in range(2):
            deadline = threading.Timer(random.uniform(0.02, 0.6), cloud.kill)
            deadline.start()
            try:
                with edge_at("127.0.0.1", cloud.port) as edge:
                    edge.ask("null/node/n1", "insert", node())
                    while True:
                        applied += bool(cloud.client.run(Apply([configmap(f"c{applied}")])))
                        patch = {"status": {"message": str(answered + 1)}}
                        answer = edge.ask("default/podpatch/web", "patch", json.dumps(patch)).content_as(dict)
                        assert answer["Err"] is None
                        answered += 1
            except (WebSocketException, OSError, EOFError, BeehiveError):
                deadline.join()
            cloud.start()
            (item,) = cloud.client.run(Get("pod", "web"))
            assert item.object is not None
            assert int(item.object["status"].get("message", "0")) in (answered, answered + 1)
            found = {one.object["metadata"]["name"] for one in cloud.client.run(Get("configmaps")) if one.object}
            assert {f"c{number}" for number in range(applied)} <= found
            answered = int(item.object["status"].get("message", "0"))
    finally:
        cloud.kill()
