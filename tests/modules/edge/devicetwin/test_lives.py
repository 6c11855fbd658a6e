"""Law of the node's devices over random lives: what the cloud has said and what was answered is there, also after
restarts and refusals of the disk, and nothing else.
"""

import json
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from tests.modules.edge.devicetwin.recorded import Node

_NAMES: Final = ("a", "b", "c")


class Life:
    """A node, its cloud and its applications; and which devices there have to be."""

    def __init__(self, directory: Path, random: Random) -> None:
        self.node, self.random = Node(directory, name="n1"), random
        self.objects: dict[str, str] = {}
        """The uids of the Device objects."""
        self.present: set[str] = set()
        self.values: dict[str, str] = {}
        self.desired: dict[str, str] = {}
        self.unsure: set[str] = set()
        """Devices whose removal was refused: named again before it was repeated, they have their values still."""
        self._count = 0

    def membership(self) -> None:
        """The cloud names devices: new ones, removed ones, or all."""
        chosen = self.random.sample(_NAMES, self.random.randint(0, 2))
        kind = self.random.choice(("added_devices", "removed_devices", "devices"))
        said = {"event_id": "m", "timestamp": 1, kind: [{"id": f"ns/{name}", "name": name} for name in chosen]}
        resource = "membership/detail" if kind == "devices" else "membership"
        message = self.node.bee.message(resource, "update", said, source="edgemgr", group="twin")
        self.node.from_cloud(message)
        gone = set(chosen) if kind == "removed_devices" else set(_NAMES) - set(chosen) if kind == "devices" else set()
        for name in gone - self.objects.keys():
            self._forget(name)
        if kind != "removed_devices":
            self.present |= set(chosen)

    def put(self) -> None:
        """The cloud sends a Device object, perhaps with a desired value."""
        name = self.random.choice(_NAMES)
        self._count += 1
        uid = self.objects.setdefault(name, f"uid-{self._count}")
        value = self.random.choice(("", "1", "2"))
        properties = [{"name": "level", "desired": {"value": value}}] if value else []
        metadata = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(self._count)}
        spec = {"deviceModelRef": {"name": "model"}, "nodeName": "n1", "properties": properties}
        self._send(f"ns/device/{name}", {"metadata": metadata, "spec": spec})
        self.present.add(name)
        self.desired[name] = value

    def delete(self) -> None:
        """The cloud deletes an object; the message may be late, of an earlier one."""
        name = self.random.choice(_NAMES)
        uid = self.random.choice((self.objects.get(name, "other"), "other", ""))
        self._count += 1
        metadata = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(self._count)}
        self._send(f"ns/device/{name}", {"metadata": metadata}, "delete")
        if uid in (self.objects.get(name, uid), ""):
            self.objects.pop(name, None)
            self._forget(name)

    def report(self) -> None:
        """An application reports a value."""
        name = self.random.choice(_NAMES)
        self._count += 1
        value = str(self._count)
        said = {"event_id": "e", "timestamp": 1, "twin": {"temperature": {"actual": {"value": value}}}}
        answer = self._ask(name, "update", said)
        code = answer.get("code", 200)
        if name not in self.present:
            assert code == 404
        elif self.node.disk_is_full:
            assert code in (404, 500)
        else:
            assert code == 200, answer
            self.values[name] = value

    def restart(self) -> None:
        """The process ends, and another one begins."""
        self.node.stop()
        self.node.start()

    def check(self) -> None:
        """Check that the devices are as they have to be."""
        for name in _NAMES:
            got = self._ask(name, "get", {"event_id": "g"})
            assert got.get("code", 200) == (200 if name in self.present else 404), name
            twins: dict[str, Any] = got.get("twin") or {}
            if name in self.unsure:
                continue
            assert twins.get("temperature", {}).get("actual", {}).get("value") == self.values.get(name)
            level = twins.get("level", {}).get("expected", {}).get("value") or ""
            assert level == self.desired.get(name, "")

    def _forget(self, name: str) -> None:
        self.present.discard(name)
        self.values.pop(name, None)
        self.desired.pop(name, None)
        (self.unsure.add if self.node.disk_is_full else self.unsure.discard)(name)

    def _send(self, resource: str, content: Any, operation: str = "update") -> None:
        message = self.node.bee.message(resource, operation, content, source="edgecontroller", group="resource")
        self.node.from_cloud(message)

    def _ask(self, name: str, what: str, said: dict[str, Any]) -> dict[str, Any]:
        topic, before = f"$hw/events/device/ns/{name}/twin/{what}", len(self.node.published)
        self.node.from_application(topic, json.dumps(said))
        (answer,) = [found for of, found in self.node.published[before:] if of == f"{topic}/result"]
        return answer


@pytest.mark.parametrize("seed", range(8))
def test_the_devices_are_as_the_cloud_sent_them_last(tmp_path: Path, seed: int) -> None:
    random = Random(seed)  # noqa: S311 - reproducible
    life = Life(tmp_path, random)
    for _ in range(60):
        life.node.disk_is_full = random.random() < 0.3
        if life.node.disk_is_full:  # objects wait in the cloud until metamanager has stored them
            for _ in range(random.randint(1, 3)):
                random.choice((life.membership, life.report))()
            life.node.disk_is_full = False
            life.node.bee.run_for(30.0)
        else:
            random.choice((life.membership, life.put, life.put, life.delete, life.report, life.report, life.restart))()
            life.node.bee.run_for(random.choice((0.0, 1.0, 30.0)))
        life.check()
    life.node.stop()
