"""Volumes: what is in them, and what happens when the cloud changes it."""

from pathlib import Path

import pytest

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import config_map, container, is_ready, mount, pod
from tests.end_to_end.processes import wait_until

pytestmark = pytest.mark.gives_its_machine_back


_WHOLE = 200_000
"""Bytes of a value that no reader could get in one piece, were it written in place."""


def test_a_changed_configmap_reaches_the_mounted_file_whole(machine: Machine) -> None:
    """A container that reads all the time sees the old content, then the new one, and never anything between."""
    watch = 'while true; do s=$(md5sum < /config/key); [ "$s" = "$t" ] || echo "$s"; t=$s; sleep 0.01; done'
    volumes: tuple[JsonObject, ...] = ({"name": "config", "configMap": {"name": "c"}},)
    machine.cloud.apply(config_map("c", key="a" * _WHOLE))
    machine.cloud.apply(pod("p", container(watch, volumeMounts=[mount("config", "/config")]), volumes=volumes))
    made = machine.cloud.pods.wait("p", is_ready)
    wait_until(lambda: len(machine.edge.lines(made)) == 1, "the old content was read")
    target = machine.edge.volume(made, "configmap", "config") / "..data"
    before = target.readlink()
    machine.cloud.apply(config_map("c", key="b" * _WHOLE))
    wait_until(lambda: len(machine.edge.lines(made)) > 1, "the new content was read")
    assert target.readlink() != before, "the whole directory is exchanged, by a link"
    assert (target.parent / "key").read_text() == "b" * _WHOLE
    machine.cloud.apply(config_map("c", key="c" * _WHOLE))
    wait_until(lambda: len(machine.edge.lines(made)) > 2, "the third content was read")
    assert len(machine.edge.lines(made)) == 3


def test_empty_directory_and_host_path(machine: Machine, tmp_path: Path) -> None:
    """Containers share an emptyDir; a hostPath is the machine's own directory, and read-only where the pod says so."""
    (tmp_path / "given").write_text("from the machine\n")
    volumes: tuple[JsonObject, ...] = (
        {"name": "shared", "emptyDir": {}},
        {"name": "host", "hostPath": {"path": str(tmp_path), "type": "Directory"}},
    )
    writer = container(
        "cp /host/given /shared/copy; touch /host/new || echo refused; exec sleep 600",
        "writer",
        volumeMounts=[mount("shared", "/shared"), mount("host", "/host", readOnly=True)],
    )
    reader = container(
        "until [ -e /shared/copy ]; do sleep 0.05; done; cat /shared/copy; exec sleep 600",
        "reader",
        volumeMounts=[mount("shared", "/shared")],
    )
    machine.cloud.apply(pod("p", writer, reader, volumes=volumes))
    made = machine.cloud.pods.wait("p", is_ready)
    wait_until(lambda: machine.edge.lines(made, "reader") == ["from the machine"], "the reader has read it")
    wait_until(lambda: "refused" in machine.edge.lines(made, "writer"), "the writer was refused")
    assert not (tmp_path / "new").exists()


def test_a_configmap_of_a_mebibyte(machine: Machine) -> None:
    """The largest that Kubernetes takes; its message is larger, and arrives whole."""
    size = 1024 * 1024
    volumes: tuple[JsonObject, ...] = ({"name": "config", "configMap": {"name": "big"}},)
    machine.cloud.apply(config_map("big", key="x" * size))
    script = "wc -c < /config/key | tr -d ' '; exec sleep 600"
    machine.cloud.apply(pod("p", container(script, volumeMounts=[mount("config", "/config")]), volumes=volumes))
    made = machine.cloud.pods.wait("p", is_ready)
    wait_until(lambda: machine.edge.lines(made) == [str(size)], "the container has counted")
