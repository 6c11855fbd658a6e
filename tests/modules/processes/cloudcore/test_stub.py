"""The stub's modules together, in this process: an edge on a real websocket, commands over the real control socket."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from beehive.decoding import convert
from beehive.message import Message
from modules.processes.cloudcore.errors import ControlError
from tests.modules.cloud.objects import configmap, node, pod
from tests.modules.processes.cloudcore.stubs import Stub
from tests.modules.traces import recordings, steps_of
from tests.support.control_client import Apply, ControlClient, Delete, Get


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    with Stub(tmp_path, database="") as running:
        yield running


def test_the_life_of_a_pod(stub: Stub) -> None:
    """Applied, delivered, running, deleted with grace, ended, gone."""
    with stub.edge() as edge:
        registered = edge.ask("null/node/n1", "insert", node()).content_as(dict)
        assert registered["Err"] is None
        edge.acknowledge(edge.next())
        stub.client.run(Apply([pod(nodeName="")]))
        insert = edge.next()
        assert (insert.route.operation, insert.route.resource) == ("insert", "default/pod/web")
        edge.acknowledge(insert)
        uid = insert.content_as(dict)["metadata"]["uid"]
        running = {"metadata": {"uid": uid}, "status": {"phase": "Running"}}
        answer = edge.ask("default/podpatch/web", "patch", json.dumps(running))
        assert answer.content_as(dict)["Object"]["status"]["phase"] == "Running"
        edge.acknowledge(edge.next())
        (item,) = stub.client.run(Delete("pod", "web"))
        assert item.outcome == "is being deleted"
        update = edge.next()
        assert update.content_as(dict)["metadata"]["deletionGracePeriodSeconds"] == 30
        edge.acknowledge(update)
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        assert edge.ask("default/pod/web", "delete", options).content_as(str) == "OK"
        assert [edge.next().route.operation for _ in range(2)] == ["update", "delete"]
    assert stub.client.run(Get("pods")) == []


def test_a_big_object_passes(stub: Stub) -> None:
    with stub.edge() as edge:
        volume = {"name": "v", "configMap": {"name": "settings"}}
        stub.client.run(Apply([configmap(big="x" * 1_000_000), pod(volumes=[volume])]))
        assert edge.next().route.resource == "default/configmap/settings"
        answer = edge.ask("default/configmap/settings", "query")
        assert len(answer.content_as(dict)["data"]["big"]) == 1_000_000


@pytest.mark.parametrize(
    "path", [*recordings("today"), *recordings("2019")], ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_a_real_edge_gets_as_far_as_it_got_with_the_real_cloud(stub: Stub, path: Path) -> None:
    """Every request that the real cloud answered is answered over the socket, whatever state the stub is in."""
    steps = list(steps_of(path))
    answered = {step.parent: step.resource for step in steps if not step.from_edge}
    with stub.edge("lab-2019" if path.parent.name == "2019" else "lab-edge") as edge:
        for step in steps:
            message = convert(step.message, Message)
            if step.from_edge and step.id in answered:
                assert edge.answer_to(message).route.resource == answered[step.id]
            elif step.from_edge:
                edge.send(message)


def test_versions_go_on_after_a_restart_without_a_database(tmp_path: Path) -> None:
    versions = []
    for _ in range(2):
        with Stub(tmp_path, database="sqlite://") as running:
            (item,) = running.client.run(Apply([pod()]))
            assert item.object is not None
            versions.append(int(item.object["metadata"]["resourceVersion"]))
            running.client.run(Delete("pod", "web", grace=0))
    assert versions[0] <= versions[1]


def test_only_its_user_can_reach_the_control_socket(stub: Stub) -> None:
    assert stat.S_IMODE(stub.config.control_socket.stat().st_mode) == 0o600


def test_a_second_stub_on_the_same_socket_is_refused_and_a_stale_socket_replaced(tmp_path: Path) -> None:
    with Stub(tmp_path) as first:
        with pytest.raises(ControlError, match="another cloudcore is running"), Stub(tmp_path):
            pass
        assert first.client.run(Get("pods")) == [], "the first goes on"
        path = first.config.control_socket
        stale = path.with_name("stale")
        path.rename(stale)
    stale.rename(path)
    with Stub(tmp_path) as third:
        assert third.client.run(Get("pods")) == []


def test_without_a_stub_the_client_has_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ControlError, match="is `cloudcore run` running"):
        ControlClient(tmp_path / "nothing").run(Get("pods"))
