"""Devices and DeviceModels that a node has and the cloud's list of its devices lacks: the node asks, and is sent the
deletion of what is gone.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from beehive.testing import Harness
from modules.cloud.edgecontroller.downstream import controller
from tests.modules.cloud.edgecontroller.controller import Controller
from tests.modules.cloud.edgecontroller.test_device_objects import INSERTED, People
from tests.modules.processes.cloudcore.devices import device, model

DEVICE, MODEL = "default/device/thermo", "default/devicemodel/thermo-model"


@pytest.fixture
def people() -> Iterator[People]:
    """The database is new, and the objects are younger."""
    with Harness() as bee:
        made = Controller(bee)
        bee.run_for(5.0)
        yield People(made)


def head_of(people: People, kind: str, name: str) -> dict[str, Any]:
    """The metadata of an object in the cloud, as far as nodes tell it."""
    found = people.call("get", kind, name).object
    assert found is not None
    return {key: found["metadata"][key] for key in ("uid", "creationTimestamp", "resourceVersion")}


def asks(people: People, resource: str, head: dict[str, Any], node: str = "n1") -> tuple[Any, list[str]]:
    """What a node that asks about an object is answered, and what nodes are sent."""
    request = people.controller.asks(resource, "query", json.dumps({"metadata": head}), node)
    people.controller.bee.settle()
    return people.controller.answer_to(request).content, people.sent()


def lose_records(people: People) -> None:
    """The records of what n1 has go with its Node."""
    people.controller.asks("null/node/n1", "insert", {"metadata": {"name": "n1"}, "spec": {}, "status": {}})
    people.controller.bee.settle()
    people.controller.remove("node", "n1")
    people.controller.bee.settle()
    people.controller.bee.forget()


def test_a_device_that_was_deleted_without_a_record_of_it_is_deleted_on_its_node(people: People) -> None:
    """And its model; both until the node has acknowledged that."""
    people.apply(model(), device())
    heads = head_of(people, "Device", "thermo"), head_of(people, "DeviceModel", "thermo-model")
    lose_records(people)
    people.delete("Device", "thermo")
    people.delete("DeviceModel", "thermo-model")
    people.acknowledges = False
    assert asks(people, DEVICE, heads[0]) == ("OK", [f"delete node/n1/{DEVICE}"])
    people.controller.bee.run_for(30.0)
    assert f"delete node/n1/{DEVICE}" in people.sent(), "it is sent again"
    people.acknowledge_late()
    assert asks(people, MODEL, heads[1]) == ("OK", [f"delete node/n1/{MODEL}"])
    people.controller.bee.run_for(60.0)
    assert people.sent() == []


def test_a_device_of_another_node_is_deleted_on_the_node_that_asks(people: People) -> None:
    people.apply(model(), device())
    head = head_of(people, "Device", "thermo")
    lose_records(people)
    people.apply(device(node="n2"))
    assert asks(people, DEVICE, head) == ("OK", [f"delete node/n1/{DEVICE}"])
    assert asks(people, DEVICE, head, "n2") == ("OK", [])
    assert f"insert node/n1/{DEVICE}" in people.apply(device()), "it has come back"


def test_a_device_that_a_lost_database_may_have_had_is_not_deleted(people: People) -> None:
    """Its time and its version must both say that it is younger than the new one."""
    people.apply(model(), device())
    head = head_of(people, "Device", "thermo")
    lose_records(people)
    people.delete("Device", "thermo")
    for change in (
        {"creationTimestamp": "2020-01-01T00:00:00Z"},
        {"creationTimestamp": None},
        {"creationTimestamp": "soon"},
        {"resourceVersion": "0"},
        {"resourceVersion": "a"},
    ):
        assert asks(people, DEVICE, {**head, **change}) == ("OK", [])
    assert asks(people, DEVICE, head) == ("OK", [f"delete node/n1/{DEVICE}"])


def test_what_the_cloud_has_is_not_deleted(people: People) -> None:
    """Nothing of it is in the answer either. A model that no device of the node has is left."""
    people.apply(model(), model("unused"), device())
    for kind, name, resource in (
        ("Device", "thermo", DEVICE),
        ("DeviceModel", "thermo-model", MODEL),
        ("DeviceModel", "unused", "default/devicemodel/unused"),
    ):
        assert asks(people, resource, head_of(people, kind, name)) == ("OK", [])


def test_the_successor_of_a_name_is_not_deleted(people: People) -> None:
    people.apply(model(), device())
    old = head_of(people, "Device", "thermo")
    people.delete("Device", "thermo")
    assert people.apply(device()) == INSERTED
    (_, sent) = asks(people, DEVICE, old)
    assert sent == [f"delete node/n1/{DEVICE}"], "the node compares the uids"
    assert asks(people, DEVICE, head_of(people, "Device", "thermo")) == ("OK", [])


@pytest.mark.parametrize("uid", ["", "x" * 300, "\0"])
def test_a_uid_that_is_none_is_sent_no_record(people: People, uid: str) -> None:
    people.apply(model())
    asks(people, DEVICE, {"uid": uid})
    people.controller.bee.run_for(60.0)
    assert people.sent() == []


@pytest.mark.parametrize("content", ["[]", "7", '{"metadata": null}', '{"metadata": {"uid": 7}}', "{", "{}"])
def test_what_cannot_be_read_is_refused(people: People, content: str) -> None:
    request = people.controller.asks(DEVICE, "query", content)
    people.controller.bee.settle()
    assert people.controller.answer_to(request).content["ErrStatus"]["code"] == 400
    assert people.sent() == []


@pytest.mark.parametrize("resource", ["default/device/a,metadata.name!=b", "a b/device/thermo"])
def test_a_name_that_selects_many_is_refused_without_a_list(people: People, resource: str) -> None:
    content, sent = asks(people, resource, {"uid": "u1"})
    assert "is none" in str(content)
    assert sent == []


def test_a_node_that_names_ever_other_objects_is_owed_few_deletions(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would leave a record until the node acknowledges the deletion. Others come when it has."""
    monkeypatch.setattr(controller, "MAX_UNKNOWN_OBJECTS", 5)
    people.apply(model(), device())
    head, people.acknowledges = head_of(people, "Device", "thermo"), False

    def records() -> int:
        database = people.controller.database
        database.begin()
        found = database.object_syncs_of("n1")
        database.abandon()
        return sum(uid.startswith("u-") for uid in found)

    for number in range(9):
        asks(people, DEVICE, {**head, "uid": f"u-{number}"})
    assert 0 < records() <= 5
    people.acknowledge_late()
    assert records() == 0
    assert asks(people, DEVICE, {**head, "uid": "u-9"})[1] == [f"delete node/n1/{DEVICE}"]
