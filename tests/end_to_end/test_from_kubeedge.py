"""A node moves from KubeEdge's edgecore to this one (docs/from-kubeedge.md): configuration, database, containers.

The runtime runs beside edgecore, as containerd does; the embedded one is a process of its own here.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from edged.cri.client import CriClient
from edged.pods.hash import kubelet_hash
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.types import Container
from protos.cri.v1 import api_pb2 as cri
from tests.end_to_end import kubelet_made
from tests.end_to_end.kubelet_made import RESTARTS, TOKEN, UID
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import IMAGE, is_ready, pod, restarts_of, status_of
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest, RuntimeUnderTest
from tests.metamanager import kubeedge_file
from tests.modules.runtimes.process.server_process import RemoteNode
from tests.support.directories import short_directory
from tests.support.patience import PATIENCE
from tests.support.ports import free_port


class ServedEmbedded(EmbeddedUnderTest):
    """The process runtime in a process that lives longer than edgecore."""

    def __init__(self, node: RemoteNode) -> None:
        self.endpoint = f"unix://{node.socket}"


@pytest.fixture(params=["embedded", pytest.param("containerd", marks=pytest.mark.containerd)])
def runtime(request: pytest.FixtureRequest) -> Iterator[RuntimeUnderTest]:
    """A runtime that is there before any edgecore."""
    if request.param == "containerd":
        yield request.getfixturevalue("containerd")
        return
    with short_directory("em-") as directory, RemoteNode(directory) as node:
        yield ServedEmbedded(node)


def test_nothing_restarts(stopped_machine: Machine) -> None:
    """The pod of KubeEdge is there without a cloud: the same container, with its restart count. When it ends it is
    started again with what the database has, and the new container is one that a kubelet would keep.
    """
    machine = stopped_machine
    file = _leave_as_kubeedge(machine)
    client = CriClient(machine.runtime.endpoint, request_timeout=PATIENCE)
    with closing(client):
        theirs = kubelet_made.start(client, machine.edge.pod_logs)
        machine.edge.run()
        wait_until(lambda: _is_shown(machine), "the node shows the pod")
        shown = machine.edge.pods()["web"]
        assert status_of(shown)["containerID"].endswith(f"://{theirs}")
        assert restarts_of(shown) == RESTARTS
        assert [each.id for each in client.list_containers()] == [theirs]
        token = machine.edge.volume(shown, "projected", "kube-api-access-x7k2p") / "token"
        wait_until(token.exists, "the token is in its volume")
        assert token.read_text() == TOKEN

        client.stop_container(theirs, 0)
        wait_until(lambda: _restarts(machine) == RESTARTS + 1, "it is started again, and ready")
        (ours,) = (each for each in client.list_containers() if each.state == cri.CONTAINER_RUNNING)
    assert ours.annotations["io.kubernetes.container.hash"] == kubelet_hash(Container(name="app", image=IMAGE))
    assert ours.annotations["io.kubernetes.container.restartCount"] == str(RESTARTS + 1)
    assert ours.labels["io.kubernetes.pod.uid"] == UID
    with closing(sqlite3.connect(file)) as database:
        kept = database.execute("SELECT key FROM meta WHERE type = 'pod'").fetchall()
    assert kept == [("default/pod/web",)]


def test_another_image_does_restart_it(stopped_machine: Machine) -> None:
    """The cloud's pod has changed: a container with another image is ended and replaced."""
    machine = stopped_machine
    file = _leave_as_kubeedge(machine)
    with closing(CriClient(machine.runtime.endpoint, request_timeout=PATIENCE)) as client:
        theirs = kubelet_made.start(client, machine.edge.pod_logs)
        changed = kubelet_made.stored_pod()
        changed["spec"]["containers"][0]["image"] = IMAGE.replace("1.36", "1.37")
        kubeedge_file.save(file, changed)
        machine.edge.run()
        wait_until(lambda: _restarts(machine) == RESTARTS + 1, "it is replaced")
        running = [each.id for each in client.list_containers() if each.state == cri.CONTAINER_RUNNING]
    assert theirs not in running


def test_its_pods_end_as_ours_do(stopped_machine: Machine) -> None:
    """A pod whose deletion KubeEdge was told of: container and sandbox go, although another agent has made them."""
    machine = stopped_machine
    machine.cloud.start()
    machine.cloud.apply(pod("other", nodeName=kubelet_made.NODE))
    machine.cloud.kill()
    machine.cloud.start()  # a new cloud would say that it may lack pods, and its node would keep them
    file = _leave_as_kubeedge(machine, machine.cloud.address)
    with closing(CriClient(machine.runtime.endpoint, request_timeout=PATIENCE)) as client:
        kubelet_made.start(client, machine.edge.pod_logs)
        ending = kubelet_made.stored_pod()
        ending["metadata"] |= {"deletionTimestamp": "2026-11-20T08:00:00Z", "deletionGracePeriodSeconds": 1}
        kubeedge_file.save(file, ending)
        machine.edge.run()
        wait_until(lambda: "web" not in _names(client.list_containers()), "the container is removed")
        wait_until(lambda: "web" not in _names(client.list_pod_sandboxes()), "the sandbox is removed")


def _leave_as_kubeedge(machine: Machine, cloud: str = "") -> Path:
    """KubeEdge's configuration and database on the machine's disk; without a cloud's address nobody answers."""
    file = machine.directory / "edgecore.db"
    kubeedge_file.make(file)
    token = {kubelet_made.TOKEN_KEY: kubelet_made.stored_token()}
    kubeedge_file.save(file, kubelet_made.stored_pod(), kubelet_made.stored_configmap(), tokens=token)
    endpoint, port = machine.runtime.endpoint, machine.edge.port
    config: JsonObject = kubelet_made.configuration(machine.directory, endpoint, port, free_port())
    if cloud:
        config["modules"]["edgeHub"]["websocket"]["server"] = f"ws://{cloud}"
        config["modules"]["edged"]["allowUnisolatedRoot"] = True
    machine.edge.file.write_text(kubelet_made.as_file(config))
    return file


def _names(found: Iterable[cri.Container | cri.PodSandbox]) -> set[str]:
    return {each.labels["io.kubernetes.pod.name"] for each in found}


def _is_shown(machine: Machine) -> bool:
    return _restarts(machine) is not None


def _restarts(machine: Machine) -> int | None:
    """How often the container has been started again; None while it is not shown as ready."""
    shown = machine.edge.pods().get("web")
    if shown is None or not shown["status"].get("containerStatuses") or not is_ready(shown):
        return None
    return restarts_of(shown)
