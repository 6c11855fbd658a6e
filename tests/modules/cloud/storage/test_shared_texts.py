"""Stored objects have equal texts in common, and are what they were."""

import json
from typing import Any

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, key_of
from modules.cloud.storage.object_storage import Storage
from modules.cloud.storage.shared_texts import MOST, SharedTexts
from tests.modules.cloud.objects import configmap, pod, secret

_IMAGE = "example.org/team/" + "i" * 60


def _decoded(name: str) -> Any:
    """Return a pod whose texts no other has."""
    made = pod(name, containers=[{"name": "main", "image": _IMAGE, "env": [{"name": "A", "value": "x" * 200}]}])
    return json.loads(json.dumps({**made, "metadata": {"name": name, "namespace": "default", "uid": f"uid of {name}"}}))


def _stored(storage: Storage, name: str, way: str) -> JsonObject:
    """Store a pod in one of the ways in which objects come, and return what is stored."""
    obj = _decoded(name)
    versioned = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(storage.version + 1)}}
    if way == "loaded":
        storage.restore([versioned])
    elif way == "adopted":
        storage.adopt([(key_of(obj), versioned)], storage.version + 1, complete=False)
    elif way == "changed":
        storage.create(pod(name))
        storage.replace({**pod(name), "spec": obj["spec"]})
    else:
        storage.create(obj)
    stored = storage.find(key_of(obj))
    assert stored is not None
    assert stored["spec"] == obj["spec"]
    return stored


@pytest.mark.parametrize("way", ["created", "changed", "loaded", "adopted"])
def test_stored_objects_have_equal_texts_in_common(way: str) -> None:
    storage = Storage(Simulation(0).clock)
    one, other = (_stored(storage, name, way)["spec"]["containers"][0] for name in ("a", "b"))
    assert one["image"] is other["image"]
    assert one["env"][0]["value"] is not other["env"][0]["value"], "a long text is seldom another's"


def test_so_have_first_statuses() -> None:
    storage = Storage(Simulation(0).clock)
    found = []
    for name in ("a", "b"):
        made = storage.create({**pod(name), "status": {"phase": "Pending"}})
        status = json.loads(json.dumps({"phase": "Running", "hostIP": "192.0.2.1"}))
        found.append(storage.change_status(key_of(made), made, status)["status"]["hostIP"])
    assert found[0] is found[1]


def test_few_texts_are_known_at_a_time() -> None:
    texts = SharedTexts()
    for number in range(3):
        texts.share({"args": [f"{number} {at}" for at in range(MOST)]})
        assert len(texts) <= MOST + 1
    texts.share(configmap(**{f"key-{at}": f"value {at}" for at in range(2 * MOST)}))
    assert len(texts) <= MOST + 1


def test_a_secret_is_not_kept() -> None:
    texts = SharedTexts()
    texts.share(secret(key="swordfish"))
    assert len(texts) == 0
