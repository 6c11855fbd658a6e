"""A node that loses its power while its cloud cannot be reached: it is as good as it was, from what it has stored."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest

from modules.apimachinery.kinds import JsonObject
from tests.edged.volumes.mounting import may_mount
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import config_map, container, is_ready, mount, pod, restarts_of, runs_anew, status_of
from tests.end_to_end.power import lose_power
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest

_NAMES = [f"p{number}" for number in range(5)]
_SECRET: JsonObject = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "s", "namespace": "default"},
    "stringData": {"key": "hidden"},
}
_VOLUMES: tuple[JsonObject, ...] = (
    {"name": "config", "configMap": {"name": "c"}},
    {"name": "secret", "secret": {"secretName": "s"}},
    {"name": "disk", "emptyDir": {}},
    *([{"name": "memory", "emptyDir": {"medium": "Memory"}}] if may_mount() else []),
)
_MOUNTS = [mount(each["name"], f"/{each['name']}") for each in _VOLUMES]
_EMPTY = " ".join(each["name"] for each in _VOLUMES if "emptyDir" in each)
_LAST = "that is all"
_SCRIPT = f"""
echo $(cat /config/key) $(cat /secret/key) $FROM
for volume in {_EMPTY}; do if [ -e /$volume/mark ]; then echo $volume; fi; touch /$volume/mark; done
echo {_LAST}
exec sleep 600
"""
_FROM = {"name": "FROM", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "key"}}}


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Of the process runtime: containerd's containers survive as long as the daemon of the test worker does."""
    with closing(Machine(EmbeddedUnderTest())) as made:
        made.start()
        yield made


def test_a_loss_of_power_without_a_cloud(machine: Machine) -> None:
    """Every pod runs again in a new container, with its configuration and what was on its disk; what was in memory, on
    a node that may mount, is gone. When the cloud is back it learns of it, and finds each pod as it left it.
    """
    machine.cloud.apply(config_map("c", key="kept"), _SECRET)
    app = container(_SCRIPT, volumeMounts=_MOUNTS, env=[_FROM])
    machine.cloud.apply(*(pod(name, app, volumes=_VOLUMES) for name in _NAMES))
    before = {name: machine.cloud.pods.wait(name, is_ready) for name in _NAMES}
    wait_until(lambda: all(_LAST in machine.edge.lines(obj) for obj in before.values()), "all have left their marks")
    machine.cloud.kill()
    lose_power(machine)
    machine.start_edge()
    wait_until(lambda: all(runs_anew(before[name], now) for name, now in _pods(machine)), "all pods run again")
    machine.cloud.start()
    for name, obj in before.items():
        now = machine.cloud.pods.wait(name, partial(runs_anew, obj))
        assert now["metadata"]["uid"] == obj["metadata"]["uid"]
        assert restarts_of(now) == 1
        assert _ended(now) == {"exitCode": 255, "reason": "Unknown"}, "nobody saw its end"
        assert _printed(machine, now) == ["kept hidden kept", "disk"]


def _pods(machine: Machine) -> list[tuple[str, JsonObject]]:
    """The node's own pods; {} for an unknown one."""
    known = machine.edge.pods()
    return [(name, known.get(name, {})) for name in _NAMES]


def _ended(obj: JsonObject) -> JsonObject:
    ended = status_of(obj)["lastState"]["terminated"]
    return {key: ended[key] for key in ("exitCode", "reason")}


def _printed(machine: Machine, obj: JsonObject) -> list[str]:
    """The second container's output: its configuration, and the volumes with the first one's mark."""
    lines = machine.edge.log(obj, attempt=1)
    wait_until(lambda: lines.exists() and _LAST in lines.read_text(), "the container has printed all")
    return machine.edge.lines(obj, attempt=1)[:-1]
