"""What the lists and watches of a cluster tell, one by one, to the reflectors alone."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey, kind_named
from modules.cloud.client.kube_client import News
from modules.cloud.client.reflector.effects import Added, Deleted, Refused, Synced
from modules.cloud.client.reflector.observations import ObservedObject
from modules.cloud.devices import DEVICE, DEVICE_MODEL
from modules.cloud.edgecontroller.mirror import held_devices
from modules.cloud.edgecontroller.mirror.mirror import Mirror
from modules.cloud.edgecontroller.mirror.reflectors import _MOST_OTHERS, MIRRORED, Reflectors
from modules.cloud.edgecontroller.state.newest_versions import NewestVersions
from tests.modules.cloud.edgecontroller.controller import WEB
from tests.modules.cloud.edgecontroller.test_cluster_devices import new
from tests.modules.cloud.objects import pod
from tests.modules.processes.cloudcore.devices import device, model

THERMO = ObjectKey(DEVICE.key_name, "default", "thermo")


class Told:
    """Reflectors, and a client that tells them what a test says."""

    def __init__(self) -> None:
        self.simulation = Simulation(1)
        self.mirror, self.downstream = Mirror(), Mock(newest=NewestVersions())
        module: Any = SimpleNamespace(
            after=self.simulation.clock.after, call_soon=lambda work: work(), end_turn_soon=lambda: None
        )
        transactions: Any = SimpleNamespace(begin=lambda: None, attempt=lambda work, *, begins: work())  # noqa: ARG005
        epochs: Any = SimpleNamespace(listed=lambda _version: False, went_back=lambda: None)
        self.reflectors = Reflectors(self.mirror, module, transactions, self.downstream, epochs, lambda: None)
        self._told: dict[str, Callable[[News], None]] = {}
        self.reflectors.start(Mock(watch=lambda _selection, told, kind: self._told.update({kind: told})))

    def tell(self, kind: Kind, news: News) -> None:
        """A reflector tells something."""
        self._told[kind.key_name](news)

    def list_all(self) -> None:
        """All lists are complete, but not those of devices."""
        for name in MIRRORED:
            self.tell(kind_named(name), Synced("9"))

    def deletions(self) -> list[str]:
        """The kinds of whose objects nodes were sent the deletions that they had missed."""
        return [call.args[0] for call in self.downstream.send_deletions.call_args_list]


@pytest.fixture
def told() -> Told:
    made = Told()
    made.list_all()
    return made


def observed(obj: JsonObject, version: str = "5") -> ObservedObject:
    """An object as a list or a watch has it."""
    metadata = {"namespace": "default", "uid": "u", **obj["metadata"], "resourceVersion": version}
    body = msgspec.json.encode({**obj, "metadata": metadata})
    return ObservedObject("default", metadata["name"], metadata["uid"], version, body)


def test_a_pod_that_had_ended_comes_back_with_a_restore(told: Told) -> None:
    kind = kind_named("Pod")
    told.tell(kind, Added(observed(pod())))
    told.reflectors.handle_end(WEB, "u", "n1")
    told.tell(kind, Added(observed(pod(), "6")))
    assert told.mirror.find(WEB) is None, "the watch was late"
    told.reflectors.was_restored()
    told.tell(kind, Added(observed(pod(), "7")))
    assert told.mirror.find(WEB) is not None


def test_a_device_that_is_deleted_while_it_waits_for_its_model_does_not_come_back(told: Told) -> None:
    told.tell(DEVICE_MODEL, Synced("9"))
    waiting = observed(new(device()))
    told.tell(DEVICE, Added(waiting))
    told.tell(DEVICE, Deleted(waiting))
    told.simulation.run_for(10.0)
    assert told.mirror.find(THERMO) is None


def test_a_list_of_devices_that_is_made_again_tells_of_no_deletion_before_its_end(told: Told) -> None:
    """The first one waits for a model when the API server is restored."""
    told.tell(DEVICE_MODEL, Synced("9"))
    told.tell(DEVICE, Added(observed(new(device()))))
    told.tell(DEVICE, Synced("9"))
    told.reflectors.was_restored()
    told.simulation.run_for(10.0)
    assert (told.deletions(), told.reflectors.mirrors(DEVICE.key_name)) == ([], False)
    told.tell(DEVICE, Synced("10"))
    assert (told.deletions(), told.reflectors.mirrors(DEVICE.key_name)) == ([DEVICE.key_name], True)


def test_nobody_is_served_by_a_mirror_from_before_a_restore(told: Told) -> None:
    """Before its kind is listed again."""
    told.tell(DEVICE_MODEL, Synced("9"))
    assert told.reflectors.mirrors(DEVICE_MODEL.key_name)
    told.reflectors.was_restored()
    assert not told.reflectors.mirrors(DEVICE_MODEL.key_name)
    told.tell(DEVICE_MODEL, Synced("5"))
    assert told.reflectors.mirrors(DEVICE_MODEL.key_name)


def test_a_kind_is_refused_until_it_is_listed(told: Told) -> None:
    told.tell(DEVICE_MODEL, Refused(403, "no"))
    assert told.reflectors.refusal_of(DEVICE_MODEL.key_name) == 403
    told.tell(DEVICE_MODEL, Synced("9"))
    assert told.reflectors.refusal_of(DEVICE_MODEL.key_name) == 0


def test_few_other_kinds_are_mirrored_at_a_time(told: Told) -> None:
    kinds = [
        Kind(f"Own{number}", "example.com/v1", f"own{number}s", is_custom=True) for number in range(_MOST_OTHERS + 1)
    ]
    assert [told.reflectors.mirror(kind) for kind in kinds] == [True] * _MOST_OTHERS + [False]
    assert told.reflectors.mirror(kinds[0])


def test_few_devices_wait_for_their_models(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_devices, "_MOST", 2)
    told.tell(DEVICE_MODEL, Synced("9"))
    for name in "abc":
        told.tell(DEVICE, Added(observed(new(device(name)))))
    names = [key.name for key in told.mirror.bodies.whole(DEVICE.key_name)]
    assert names == ["c"]
    told.tell(DEVICE_MODEL, Added(observed(new(model()))))
    assert len(told.mirror.bodies.whole(DEVICE.key_name)) == 3
