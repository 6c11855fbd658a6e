"""Which Devices and DeviceModels nodes get, in which order, and their deletions."""

from collections.abc import Iterator
from typing import Any

import pytest

from beehive import Message
from beehive.testing import Harness
from modules.cloud.api_messages import Verb
from modules.cloud.client.calls import APPLY, ApiCall, ApiResult
from modules.cloud.devicecontroller.definitions import definitions
from modules.cloud.devices import API_VERSION
from modules.cloud.edgecontroller.module import EdgeController
from tests.modules.cloud.edgecontroller.controller import Controller
from tests.modules.processes.cloudcore.devices import KINDS_BY_NAME, device, model

INSERTED = ["insert node/n1/default/devicemodel/thermo-model", "insert node/n1/default/device/thermo"]


class People:
    """Make devices by edgecontroller's API, and look at what nodes are sent."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self.acknowledges = True
        self.late: list[Message] = []
        controller.apply(*definitions())

    def call(self, verb: str, kind: str, name: str, **fields: Any) -> ApiResult:
        call = ApiCall(
            verb=verb, api_version=API_VERSION, plural=KINDS_BY_NAME[kind], namespace="default", name=name, **fields
        )
        message = self.controller.bee.message("cloudcore/objects", Verb.CALL, call, source="devicecontroller")
        result = self.controller.bee.ask(EdgeController.name, message).content_as(ApiResult)
        self.controller.bee.settle()
        return result

    def apply(self, *objects: dict[str, Any]) -> list[str]:
        """Apply objects, and return what nodes were sent."""
        for obj in objects:
            body = {"apiVersion": API_VERSION, **obj}
            result = self.call(
                "patch",
                obj["kind"],
                obj["metadata"]["name"],
                patch_type=APPLY,
                body=body,
                options={"fieldManager": "people"},
            )
            assert result.refusal is None
        return self.sent()

    def delete(self, kind: str, name: str) -> list[str]:
        """Delete an object, and return what nodes were sent."""
        assert self.call("delete", kind, name).refusal is None
        return self.sent()

    def sent(self, after: float = 0) -> list[str]:
        """Return what nodes were sent of devices since the last look, some seconds later; it is all acknowledged."""
        if after:
            self.controller.bee.run_for(after)
        messages = [each for each in self.controller.unasked() if "/device" in each.route.resource]
        assert {each.route.source for each in messages} <= {"devicecontroller"}
        for each in messages if self.acknowledges else ():
            self._acknowledge(each)
        self.late += () if self.acknowledges else messages
        self.controller.bee.settle()
        self.controller.bee.forget()
        return [f"{each.route.operation} {each.route.resource}" for each in messages]

    def acknowledge_late(self) -> None:
        """Nodes acknowledge what they were sent, in its order, and go on so."""
        for each in self.late:
            self._acknowledge(each)
        self.late, self.acknowledges = [], True
        self.controller.bee.settle()
        self.controller.bee.forget()

    def _acknowledge(self, message: Message) -> None:
        content: Any = message.content_as(Any)
        if message.route.resource.startswith("node/n1/"):
            is_delete = message.route.operation == "delete"
            version = int(message.header.resourceversion or 0)
            self.controller.acknowledged(content["metadata"]["uid"], version, is_delete=is_delete)


@pytest.fixture
def people() -> Iterator[People]:
    with Harness() as bee:
        yield People(Controller(bee))


def test_a_model_goes_ahead_of_its_first_device_and_after_its_last(people: People) -> None:
    assert people.apply(model(), device()) == INSERTED
    assert people.apply(device("second")) == ["insert node/n1/default/device/second"]
    assert people.delete("Device", "thermo") == ["delete node/n1/default/device/thermo"]
    assert people.delete("Device", "second") == [
        "delete node/n1/default/device/second", "delete node/n1/default/devicemodel/thermo-model",
    ]  # fmt: skip


def test_a_model_that_comes_later_or_changes_goes_to_the_nodes_of_its_devices(people: People) -> None:
    """And to no others; the end of the model, too. A device waits for its model only for a moment."""
    assert people.apply(device(), device("nowhere", node="")) == []
    assert people.sent(after=3.0) == ["insert node/n1/default/device/thermo"]
    assert people.apply(model()) == ["insert node/n1/default/devicemodel/thermo-model"]
    changed = model()
    changed["spec"]["properties"][0]["unit"] = "K"
    assert people.apply(changed) == ["update node/n1/default/devicemodel/thermo-model"]
    assert people.apply(model("unused")) == []
    assert people.delete("DeviceModel", "thermo-model") == ["delete node/n1/default/devicemodel/thermo-model"]


def test_a_device_with_another_model_gets_that_one(people: People) -> None:
    people.apply(model(), model("other"), device())
    assert people.apply(device(of="other")) == [
        "insert node/n1/default/devicemodel/other", "update node/n1/default/device/thermo",
        "delete node/n1/default/devicemodel/thermo-model",
    ]  # fmt: skip
    assert people.apply(device(of="")) == [
        "update node/n1/default/device/thermo", "delete node/n1/default/devicemodel/other",
    ]  # fmt: skip


def test_a_device_moves(people: People) -> None:
    people.apply(model(), device())
    assert people.apply(device(node="n2")) == [
        "delete node/n1/default/device/thermo",
        "insert node/n2/default/devicemodel/thermo-model", "insert node/n2/default/device/thermo",
        "delete node/n1/default/devicemodel/thermo-model",
    ]  # fmt: skip


def test_a_node_that_registers_again_gets_all_as_updates(people: People) -> None:
    """Models first: KubeEdge's mappers ignore an insert of a device that they know."""
    people.apply(model(), device())
    registration = {"metadata": {"name": "n1"}, "spec": {}, "status": {}}
    people.controller.asks("null/node/n1", "insert", registration)
    assert people.sent() == [], "it was sent them over this connection"
    people.controller.connected()
    people.controller.asks("null/node/n1", "insert", registration)
    assert people.sent() == [each.replace("insert", "update") for each in INSERTED]


def test_a_node_that_connects_gets_missing_objects(people: People) -> None:
    """And the deletions of what went, or went elsewhere, while it was away: devices before models."""
    people.apply(model(), device(), device("moves"), model("goes"), device("goes", of="goes"))
    people.controller.of_link("disconnected", 1)
    people.controller.bee.settle()
    people.apply(device(desired="31.5"), device("moves", node="n3"), device("new"))
    people.delete("Device", "goes")
    people.delete("DeviceModel", "goes")
    assert people.sent() == []
    people.controller.connected()
    assert people.sent() == [
        "delete node/n1/default/device/goes", "delete node/n1/default/device/moves",
        "delete node/n1/default/devicemodel/goes",
        "update node/n1/default/device/thermo", "insert node/n1/default/device/new",
    ]  # fmt: skip
    people.controller.of_link("disconnected", 3)
    people.controller.connected()
    assert people.sent() == []


def test_a_device_that_was_made_again_is_not_deleted_by_its_name(people: People) -> None:
    """While the node was away; it knows a device by its name."""
    people.apply(model(), device())
    people.controller.of_link("disconnected", 1)
    people.controller.bee.settle()
    people.delete("Device", "thermo")
    people.apply(device())
    people.controller.connected()
    assert people.sent() == ["insert node/n1/default/device/thermo"]


def test_unacknowledged_objects_are_sent_again(people: People) -> None:
    people.apply(model())
    body = {"apiVersion": API_VERSION, **device()}
    people.call("patch", "Device", "thermo", patch_type=APPLY, body=body, options={"fieldManager": "people"})
    people.controller.bee.forget()
    assert set(people.sent(after=30)) == {each.replace("insert", "update") for each in INSERTED}
    assert people.sent(after=60) == []


def test_a_change_that_was_rolled_back_counts_for_nothing(people: People) -> None:
    """A dry run is one."""
    people.apply(model(), device())
    body = {"apiVersion": API_VERSION, **device(node="n2")}
    people.call(
        "patch", "Device", "thermo", patch_type=APPLY, body=body, options={"dryRun": ["All"], "fieldManager": "people"}
    )
    assert people.sent() == []
    changed = model()
    changed["spec"]["properties"][0]["unit"] = "K"
    assert people.apply(changed) == ["update node/n1/default/devicemodel/thermo-model"]


def test_a_model_that_is_needed_again_before_its_deletion_is_acknowledged_is_sent_again(people: People) -> None:
    """Its version is the one that the node had; the device is another one of the name."""
    people.apply(model(), device())
    people.acknowledges = False
    assert people.delete("Device", "thermo") == [
        "delete node/n1/default/device/thermo", "delete node/n1/default/devicemodel/thermo-model",
    ]  # fmt: skip
    again = people.apply(device())
    assert [each.removeprefix("update ").removeprefix("insert ") for each in again] == [
        "node/n1/default/devicemodel/thermo-model", "node/n1/default/device/thermo",
    ]  # fmt: skip
    people.acknowledge_late()
    assert people.sent(after=30) == [], "the node has both"
    assert people.delete("Device", "thermo") == [
        "delete node/n1/default/device/thermo", "delete node/n1/default/devicemodel/thermo-model",
    ]  # fmt: skip
    assert people.sent(after=30) == []


def test_a_device_that_comes_back_before_its_move_is_acknowledged_is_known_there(people: People) -> None:
    people.apply(model(), device())
    people.acknowledges = False
    people.apply(device(node="n2"))
    people.apply(device())
    people.acknowledge_late()
    people.sent(after=30)
    assert "delete node/n1/default/device/thermo" in people.delete("Device", "thermo")
