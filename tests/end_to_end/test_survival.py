"""What survives what: edgecore killed, the cloud away, both, and the whole machine."""

from functools import partial

import pytest

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import container, is_ready, mount, pod, restarts_of, runs_anew, state_of, status_of
from tests.end_to_end.processes import wait_until

_SHARED: JsonObject = {"name": "shared", "emptyDir": {}}
_MOUNT = [mount("shared", "/shared")]
_ENDS_ONCE = "echo start >> /shared/starts; while [ ! -e /shared/end ]; do sleep 0.05; done; rm /shared/end; exit 7"
"""Runs until a file appears."""


@pytest.mark.gives_its_machine_back
def test_edgecore_killed_adopts_what_runs(machine: Machine) -> None:
    """After SIGKILL and a new start the containers are the same ones; none was started twice, none restarted."""
    starts = container("echo start >> /shared/starts; exec sleep 600", volumeMounts=_MOUNT)
    machine.cloud.apply(pod("p", starts, volumes=(_SHARED,)), pod("q"))
    before = {name: machine.cloud.pods.wait(name, is_ready) for name in ("p", "q")}
    machine.edge.kill()
    machine.start_edge()
    wait_until(lambda: set(machine.edge.pods()) == {"p", "q"}, "the node shows its pods again")
    machine.cloud.apply(pod("r"))
    machine.cloud.pods.wait("r", is_ready)
    wait_until(lambda: all(is_ready(machine.edge.pods().get(name, {})) for name in before), "the node has seen them")
    for name, obj in before.items():
        for now in (machine.cloud.get("Pod", name), machine.edge.pods()[name]):
            assert is_ready(now)
            assert status_of(now)["containerID"] == status_of(obj)["containerID"]
            assert state_of(now, "running") == state_of(obj, "running")
            assert restarts_of(now) == 0
    file = machine.edge.volume(before["p"], "empty-dir", "shared") / "starts"
    wait_until(lambda: file.exists() and file.read_text() != "", "the container has begun")
    assert file.read_text() == "start\n"


@pytest.mark.gives_its_machine_back
def test_a_container_that_ends_while_edgecore_is_away(machine: Machine) -> None:
    """Its exit status is not lost, and it is started again when edgecore is back."""
    machine.cloud.apply(pod("p", container(_ENDS_ONCE, volumeMounts=_MOUNT), volumes=(_SHARED,)))
    made = machine.cloud.pods.wait("p", is_ready)
    shared = machine.edge.volume(made, "empty-dir", "shared")
    machine.edge.kill()
    (shared / "end").touch()
    wait_until(lambda: not (shared / "end").exists(), "the container has ended")
    machine.start_edge()
    again = machine.cloud.pods.wait("p", lambda obj: is_ready(obj) and restarts_of(obj) == 1)
    assert status_of(again)["lastState"]["terminated"]["exitCode"] == 7
    wait_until(lambda: (shared / "starts").read_text() == "start\n" * 2, "the container has begun again")


@pytest.mark.gives_its_machine_back
def test_pods_change_while_edgecore_is_away(machine: Machine) -> None:
    """What the cloud has deleted is removed, and what is new is started, when edgecore is back."""
    machine.cloud.apply(pod("goes"), pod("stays"))
    for name in ("goes", "stays"):
        machine.cloud.pods.wait(name, is_ready)
    machine.edge.kill()
    machine.cloud.delete("Pod", "goes")
    machine.cloud.apply(pod("comes"))
    machine.start_edge()
    machine.cloud.pods.wait("comes", is_ready)
    machine.cloud.pods.wait_gone("goes")
    assert restarts_of(machine.cloud.get("Pod", "stays")) == 0


@pytest.mark.gives_its_machine_back
def test_killed_again_and_again(machine: Machine) -> None:
    """However far it had got with each pod, in the end every pod runs, once, and nothing else does.

    A start that containerd breaks off because its client is gone is a container that has ended: that is a restart.
    """
    names = [f"p{number}" for number in range(6)]
    starts = container("echo start >> /shared/starts; exec sleep 600", volumeMounts=_MOUNT)
    machine.cloud.apply(*(pod(name, starts, volumes=(_SHARED,)) for name in names))
    edged = machine.edge.root / "edged"
    for sandboxes in (1, 3, 5):
        wait_until(partial(_has_sandboxes, machine, sandboxes), f"there are {sandboxes} sandboxes")
        machine.edge.kill()
        machine.start_edge()
    for name in names:
        made = machine.cloud.pods.wait(name, is_ready)
        file = machine.edge.volume(made, "empty-dir", "shared") / "starts"
        wait_until(file.exists, "the container has begun")
        assert len(file.read_text().splitlines()) <= 1 + restarts_of(made)
    wait_until(lambda: machine.runtime.pods(edged) == len(names), "there are as many sandboxes as pods")


@pytest.mark.gives_its_machine_back
def test_the_cloud_away(machine: Machine) -> None:
    """Everything keeps running, ended containers restart, and the cloud learns of it later, over a new link.

    It carries both directions as before.
    """
    machine.cloud.apply(pod("p", container(_ENDS_ONCE, volumeMounts=_MOUNT), volumes=(_SHARED,)), pod("q"))
    before = {name: machine.cloud.pods.wait(name, is_ready) for name in ("p", "q")}
    machine.cloud.kill()
    (machine.edge.volume(before["p"], "empty-dir", "shared") / "end").touch()
    wait_until(lambda: restarts_of(machine.edge.pods().get("p", {})) == 1, "the container is started again")
    wait_until(lambda: is_ready(machine.edge.pods().get("p", {})), "the pod is ready again")
    machine.cloud.start()
    machine.cloud.pods.wait("p", lambda obj: is_ready(obj) and restarts_of(obj) == 1)
    now = machine.cloud.get("Pod", "q")
    assert status_of(now)["containerID"] == status_of(before["q"])["containerID"]
    machine.cloud.apply(pod("r"))
    machine.cloud.pods.wait("r", is_ready)
    machine.cloud.delete("Pod", "q")
    machine.cloud.pods.wait_gone("q")


@pytest.mark.gives_its_machine_back
def test_a_reboot_without_a_cloud(machine: Machine) -> None:
    """With edgecore and all containers gone and the cloud away, all pods run again, from the store."""
    volumes: tuple[JsonObject, ...] = ({"name": "config", "configMap": {"name": "c"}},)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"key": "kept"}}
    reads = container("cat /config/key; exec sleep 600", volumeMounts=[mount("config", "/config")])
    machine.cloud.apply(config)
    machine.cloud.apply(pod("p", reads, volumes=volumes), pod("q"))
    before = {name: machine.cloud.pods.wait(name, is_ready) for name in ("p", "q")}
    machine.cloud.kill()
    machine.edge.kill()
    machine.runtime.kill_containers(machine.edge.root / "edged")
    machine.start_edge()
    for name, obj in before.items():
        wait_until(partial(_runs_anew_on_node, machine, name, obj), f"pod {name} is ready again")
        assert machine.edge.pods()[name]["metadata"]["uid"] == obj["metadata"]["uid"]
    machine.cloud.start()
    for name, obj in before.items():
        machine.cloud.pods.wait(name, partial(runs_anew, obj))


def test_a_lost_database(machine: Machine) -> None:
    """Without the cloud nothing ends for want of a database; with it each pod is taken over as it runs."""
    machine.cloud.apply(pod("p", container("sleep 600")), pod("goes"))
    before = {name: machine.cloud.pods.wait(name, is_ready) for name in ("p", "goes")}
    machine.cloud.kill()
    machine.edge.kill()
    for file in machine.edge.root.glob("edgecore.db*"):
        file.unlink()
    machine.start_edge()
    wait_until(lambda: "not in the store" in machine.edge.process.text(), "the node sees what runs")
    machine.cloud.start()
    wait_until(lambda: set(machine.edge.pods()) == {"p", "goes"}, "the node knows its pods again")
    for name, obj in before.items():
        now = machine.cloud.pods.wait(name, is_ready)
        assert status_of(now)["containerID"] == status_of(obj)["containerID"]
        assert restarts_of(now) == 0
    machine.cloud.delete("Pod", "goes")
    machine.cloud.pods.wait_gone("goes")


def test_a_lost_database_and_nothing_that_runs(stopped_machine: Machine) -> None:
    """Nothing on the node tells of its pods any more, and this cloud sends none of them again: the node asks it for the
    list of them. Afterwards all is as before.
    """
    machine = stopped_machine
    machine.cloud.module = "tests.end_to_end.trusting_cloud"
    machine.start()
    machine.cloud.apply(pod("p"), pod("q"))
    before = {name: machine.cloud.pods.wait(name, is_ready) for name in ("p", "q")}
    machine.edge.kill()
    machine.runtime.clear(machine.edge.root / "edged")
    for file in machine.edge.root.glob("edgecore.db*"):
        file.unlink()
    machine.start_edge()
    for name, obj in before.items():
        now = machine.cloud.pods.wait(name, partial(runs_anew, obj))
        assert now["metadata"]["uid"] == obj["metadata"]["uid"]
    assert "list of this node's pods: 2 pods" in machine.edge.process.text()
    machine.cloud.delete("Pod", "p")
    machine.cloud.pods.wait_gone("p")


def _has_sandboxes(machine: Machine, number: int) -> bool:
    return machine.runtime.pods(machine.edge.root / "edged") >= number


def _runs_anew_on_node(machine: Machine, name: str, before: JsonObject) -> bool:
    """As a kubelet, the node serves the status that the cloud last sent until it has asked the runtime."""
    return runs_anew(before, machine.edge.pods().get(name, {}))
