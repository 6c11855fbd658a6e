"""Our cloud with the recorded edge of devices: d1, d2, d3 and d5 of the captures, as one life of a node.

What people did is derived from the recorded objects, and repeated. Ours differs where KubeEdge's cloud is wrong: all
messages come from devicecontroller, a device that the node never had is inserted, the membership comes at each
connection, and the first report of a property is kept. In KubeEdge v1.23, `cloud/pkg/synccontroller` resends devices as
edgecontroller and without kind and apiVersion, and `cloud/pkg/devicecontroller/controller/upstream.go` loses the first
report (kubeedge/kubeedge#7014).
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from beehive import Message, encode
from beehive.decoding import convert
from tests.interop.forms import form_of
from tests.interop.traces import KUBEEDGE, lines_of
from tests.modules.processes.cloudcore.devices import People
from tests.modules.processes.cloudcore.stubs import Edge, Stub

Json = dict[str, Any]
FILES = [
    KUBEEDGE / f"{name}.jsonl" for name in ("d1-device-created", "d2-desired-changed", "d3-reported", "d5-offline")
]
NODE = "cap-edge"


class Life:
    """Our cloud, its people, and the recorded edge."""

    def __init__(self, stub: Stub) -> None:
        self._stub = stub
        self.people = People(stub.client, "cap")
        self.people.wait()
        self._link = ExitStack()
        self._edge: Edge | None = None
        self._came: list[Message] = []
        self._ids: dict[str, str] = {}
        self._is_ahead = False
        """Whether people have done all that the rest of the file shows."""

    def play(self, path: Path) -> int:
        """Replay a file, and return the number of the cloud's messages that came."""
        steps = [one for one in lines_of(path) if one["kind"] in ("ws", "http-request")]
        reached, self._is_ahead = 0, False
        for at, one in enumerate(steps):
            if one["kind"] == "http-request":
                self.disconnect()
                self._act_all([later["msg"] for later in steps[at:] if later["kind"] == "ws"])
                self.connect()
            elif not _is_of_devices(one["msg"]):
                continue
            elif one["dir"] == "edge->cloud":
                self._say(one["msg"])
            else:
                rest = [later["msg"] for later in steps[at:] if later["kind"] == "ws"]
                self._compare(one["msg"], rest)
                reached += 1
        return reached

    def connect(self) -> None:
        """Connect the node."""
        self._edge = self._link.enter_context(self._stub.edge(NODE))

    def disconnect(self) -> None:
        """End the node's connection; nothing is acknowledged any more."""
        self._link.close()
        self._came.clear()

    def _say(self, message: Json) -> None:
        assert self._edge is not None
        parent = message["header"].get("parent_msg_id")
        if parent and parent not in self._ids:
            return
        header = message["header"] | ({"parent_msg_id": self._ids[parent]} if parent else {})
        self._edge.send(convert({**message, "header": header}, Message))

    def _compare(self, recorded: Json, rest: list[Json]) -> None:
        route = recorded["route"]
        if not recorded["header"].get("parent_msg_id") and not self._is_ahead:
            self._act_for(recorded, rest)
        ours = self._counterpart(recorded)
        self._ids[recorded["header"]["msg_id"]] = ours.id
        where = f"{route['operation']} {route['resource']}"
        assert (ours.route.source, ours.route.group) == ("devicecontroller", route["group"]), where
        assert ours.route.operation == route["operation"] or route["resource"].endswith("thermo2"), where
        assert not form_of(recorded["content"]) - form_of(ours.content_as(Any)), where
        assert b'"resourceversion"' in encode(ours) or "resourceversion" not in recorded["header"], where
        if isinstance(recorded["content"], str):
            assert ours.content_as(str) == recorded["content"], where

    def _counterpart(self, recorded: Json) -> Message:
        assert self._edge is not None
        parent, resource = recorded["header"].get("parent_msg_id", ""), recorded["route"]["resource"]
        while True:
            for one in self._came:
                if (one.parent_id, one.route.resource) == (parent, resource):
                    self._came.remove(one)
                    return one
            self._came.append(self._edge.receive())

    def _act_for(self, recorded: Json, rest: list[Json]) -> None:
        """Do what people did before a message; before a membership, what the next objects show."""
        if recorded["route"]["resource"] != "membership":
            self._act(recorded)
            return
        for later in rest[1:]:
            resource = later["route"]["resource"]
            if later["route"]["source"] == "devicecontroller" and "/device" in resource:
                self._act(later)
                if "/device/" in resource:
                    return

    def _act_all(self, messages: list[Json]) -> None:
        for one in messages:
            if _is_of_devices(one) and one["route"]["source"] in ("devicecontroller", "edgecontroller"):
                self._act(one)
        self._is_ahead = True

    def _act(self, recorded: Json) -> None:
        _, _, rest = recorded["route"]["resource"].partition("/")
        kind, _, name = rest.partition("/")
        if recorded["route"]["operation"] == "delete":
            self.people.delete("devices", name)
        elif kind in ("device", "devicemodel") and recorded["route"]["operation"] in ("insert", "update"):
            given = recorded["content"]["metadata"]
            metadata = {
                field: given[field] for field in ("name", "namespace", "labels", "annotations") if field in given
            }
            of = {"device": "Device", "devicemodel": "DeviceModel"}[kind]
            self.people.apply({**recorded["content"], "kind": of, "metadata": metadata})


def _is_of_devices(message: Json) -> bool:
    resource = message["route"]["resource"]
    return resource in ("twin", "membership", "membership/detail") or "device" in resource


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    with Stub(tmp_path) as stub:
        made = Life(stub)
        made.connect()
        yield made
        made.disconnect()


def test_our_cloud_sends_all_of_kubeedges_messages_about_devices(life: Life) -> None:
    """Message after message, and at the end of d3 the status has what was reported, the first reports included."""
    for path in FILES[:3]:
        assert life.play(path) >= 3
    assert life.people.reported("thermo") == {"temperature": "22", "threshold": "31.5", "switch": "true"}
    assert life.people.status("thermo")["state"] == "ok"
    assert life.play(FILES[3]) >= 5
    assert life.people.reported("thermo")["temperature"] == "34"
    assert life.people.get("devices", "thermo3") is None
