"""A mapper's next message."""

import json
import random
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modules.edge.dmi.catalogue import Catalogue, Key, Mark
from modules.edge.dmi.objects import read_mapped_device, read_mapped_model
from modules.edge.dmi.peer import MOST_REMOVALS, MapperStep, Peer
from protos.dmi.v1beta1 import api_pb2 as dmi
from tests.support.memories import memories_of

SOURCE = random.Random(1)  # noqa: S311


class FakeMapper:
    """A mapper in memory, its peer, and the node's objects."""

    def __init__(self) -> None:
        self.catalogue = Catalogue()
        self.peer = Peer("demo", self.catalogue)
        self.models: dict[str, dmi.DeviceModel] = {}
        self.devices: dict[str, dmi.Device] = {}
        self.methods: list[str] = []
        self.maxima: dict[str, str] = {}
        self.now = 0.0

    def model(self, name: str, protocol: str = "demo", unit: str = "", maximum: str = "") -> None:
        """Store a model."""
        self.maxima[f"ns/{name}"] = maximum
        spec = {"protocol": protocol, "properties": [{"name": "t", "type": "INT", "unit": unit, "maximum": maximum}]}
        text = json.dumps({"metadata": {"name": name, "namespace": "ns"}, "spec": spec})
        self._mark(self.catalogue.put_model(read_mapped_model(text.encode())))

    def device(self, name: str, of: str, protocol: str = "", desired: str = "", uid: str = "") -> None:
        """Store a device."""
        spec: dict[str, Any] = {"deviceModelRef": {"name": of}, "protocol": {"protocolName": protocol}}
        spec["properties"] = [{"name": "t", "desired": {"value": desired}}]
        text = json.dumps({"metadata": {"name": name, "namespace": "ns", "uid": uid}, "spec": spec})
        self._mark(self.catalogue.put_device(read_mapped_device(text.encode())))

    def desire(self, name: str, value: str) -> None:
        """Let the node's owner set, or give back, the desired value."""
        self._mark(self.catalogue.put_desired(f"ns/{name}", {"t": value} if value else {}))

    def remove(self, kind: str, name: str) -> None:
        """Delete an object."""
        remove = self.catalogue.remove_model if kind == "model" else self.catalogue.remove_device
        self._mark(remove(f"ns/{name}"))

    def restart(self) -> None:
        """Lose everything, as a new process."""
        self.models.clear()
        self.devices.clear()
        self.peer.forget()

    def run(self, fails: int = 0) -> None:
        """Make all calls that are due, also later ones; the first `fails` are refused, some of them after they were
        carried out.
        """
        while (step := self.peer.next(self.now)) is not None:
            if not isinstance(step, MapperStep):
                self.now += step
            elif fails > 0:
                if fails % 2:
                    self._take(step)
                fails -= 1
                self.peer.failed(step, self.now, SOURCE)
            elif not self._take(step):
                assert step.method == "RemoveDevice", "all others are calls that a mapper understands"
                self.peer.failed(step, self.now, SOURCE)
            else:
                self.peer.succeeded(step)
            assert len(self.methods) < 2000, "it ends"

    def expected(self) -> tuple[dict[str, dmi.DeviceModel], dict[str, dmi.Device]]:
        """What the mapper is to have."""
        wanted = {key: self.catalogue.wanted("demo", key) for key in self.catalogue.keys("demo")}
        found: dict[str, dict[str, Any]] = {"model": {}, "device": {}}
        for key, one in wanted.items():
            if one is not None:
                found[key.kind][key.id] = one.message
        return found["model"], found["device"]

    def _mark(self, marks: set[Mark]) -> None:
        self.peer.mark(sorted(key for protocol, key in marks if protocol == "demo"))

    def _may(self, device: dmi.Device) -> bool:
        """Whether the node's model of today allows the desired value in a call."""
        desired, maximum = (
            device.spec.properties[0].desired.value,
            self.maxima[f"ns/{device.spec.deviceModelReference}"],
        )
        return not desired or not maximum or int(desired) <= int(maximum)

    def _take(self, step: MapperStep) -> bool:
        self.methods.append(step.method)
        request: Any = step.request
        match step.method:
            case "CreateDeviceModel":
                self.models[step.key.id] = request.model
            case "UpdateDeviceModel":
                if step.key.id not in self.models:
                    return False
                self.models[step.key.id] = request.model
            case "UpdateDevice" | "RegisterDevice" if not self._may(request.device):
                raise AssertionError(f"the model forbids {request.device.spec.properties[0].desired.value}")
            case "UpdateDevice":
                if f"ns/{request.device.spec.deviceModelReference}" not in self.models:
                    return False
                self.devices[step.key.id] = request.device
            case "RegisterDevice":
                if f"ns/{request.device.spec.deviceModelReference}" not in self.models:
                    return False
                self.devices.setdefault(step.key.id, request.device)
            case "RemoveDevice":
                return self.devices.pop(step.key.id, None) is not None
            case "RemoveDeviceModel":
                self.models.pop(step.key.id, None)
        return True


def test_models_come_before_their_devices_and_go_after_them() -> None:
    mapper = FakeMapper()
    mapper.device("a", "m")
    mapper.run()
    assert mapper.methods == [], "a device without its model would end a mapper"
    mapper.model("m")
    mapper.run()
    mapper.remove("device", "a")
    mapper.remove("model", "m")
    mapper.run()
    assert mapper.methods == ["CreateDeviceModel", "UpdateDevice", "RemoveDevice", "RemoveDeviceModel"]


def test_only_differences_are_reported() -> None:
    """The same object again is no call; a changed model tells its devices only if they differ with it."""
    mapper = FakeMapper()
    mapper.model("m")
    mapper.device("a", "m")
    mapper.run()
    mapper.methods.clear()
    mapper.model("m")
    mapper.device("a", "m")
    mapper.run()
    assert mapper.methods == []
    mapper.model("m", unit="degree")
    mapper.run()
    assert mapper.methods == ["UpdateDeviceModel"]


@pytest.mark.parametrize("is_told", [True, False])
def test_a_device_that_was_made_again_is_not_the_one_that_the_mapper_has(*, is_told: bool) -> None:
    """Its deletion waits behind another call, or came to a node that was offline only with the new one. A mapper leaves
    a device alone whose description is equal, and has reported the state of the first one.
    """
    mapper = FakeMapper()
    mapper.model("m")
    mapper.device("a", "m", uid="1")
    mapper.run()
    if is_told:
        mapper.remove("device", "a")
    mapper.device("a", "m", uid="2")
    mapper.methods.clear()
    mapper.run()
    assert mapper.methods == ["RemoveDevice", "UpdateDevice"]
    mapper.device("a", "m", uid="3")
    mapper.run(fails=2 * MOST_REMOVALS)
    assert mapper.devices.keys() == {"ns/a"}


def test_a_device_waits_for_its_model_that_was_refused() -> None:
    """A mapper that gets a device without its model may crash."""
    mapper = FakeMapper()
    mapper.model("m")
    mapper.device("d", "m")
    step = mapper.peer.next(0.0)
    assert isinstance(step, MapperStep)
    assert step.method == "CreateDeviceModel"
    mapper.peer.failed(step, 0.0, SOURCE)
    assert isinstance(mapper.peer.next(0.0), float)


def test_a_device_that_waits_for_its_model_has_the_refusals_of_its_own() -> None:
    """Not the model's: it would be registered, or wait for minutes, at its first one."""
    mapper = FakeMapper()
    mapper.model("m")
    mapper.device("d", "m")
    for refusals in range(4):
        step = mapper.peer.next(mapper.now)
        assert isinstance(step, MapperStep)
        assert step.key.kind == "model"
        if refusals < 3:
            mapper.peer.failed(step, mapper.now, SOURCE)
            wait = mapper.peer.next(mapper.now)
            assert isinstance(wait, float)
            mapper.now += wait
        else:
            mapper.peer.succeeded(step)
    mapper.now += 3600.0
    device = mapper.peer.next(mapper.now)
    assert isinstance(device, MapperStep)
    assert (device.method, mapper.peer.failed(device, mapper.now, SOURCE)) == ("UpdateDevice", 1)


def test_a_model_goes_with_the_last_device_that_has_it() -> None:
    """Of a device that names its mapper itself, whose model is another protocol's."""
    mapper = FakeMapper()
    for name in ("m1", "m2"):
        mapper.model(name, protocol="another")
    mapper.device("d", "m1", protocol="demo")
    mapper.run()
    mapper.device("d", "m2", protocol="demo")
    mapper.run()
    assert list(mapper.models) == ["ns/m2"]


def test_a_device_that_changes_its_protocol_leaves() -> None:
    mapper = FakeMapper()
    mapper.model("m")
    mapper.device("a", "m", protocol="demo")
    mapper.run()
    mapper.device("a", "m", protocol="other")
    mapper.run()
    assert mapper.devices == {} and mapper.methods[-1] == "RemoveDevice"


def test_a_device_follows_the_protocol_of_its_model() -> None:
    """Its own is empty."""
    mapper = FakeMapper()
    mapper.model("m", protocol="other")
    mapper.device("a", "m")
    mapper.run()
    assert mapper.methods == []
    mapper.model("m", protocol="demo")
    mapper.run()
    assert list(mapper.devices) == ["ns/a"]


def test_a_refusal_is_repeated_ever_later_and_holds_up_no_other_device() -> None:
    mapper = FakeMapper()
    mapper.model("m")
    mapper.device("a", "m")
    mapper.device("b", "m")
    mapper.run()
    for value in range(3):
        mapper.device("a", "m", desired=f"{value}")
        step = mapper.peer.next(mapper.now)
        assert isinstance(step, MapperStep) and step.method == "UpdateDevice", "a change is told at once"
        times = []
        for _ in range(12):
            mapper.peer.failed(step, mapper.now, SOURCE)
            following = mapper.peer.next(mapper.now)
            while not isinstance(following, MapperStep):
                assert following is not None
                mapper.now += following
                following = mapper.peer.next(mapper.now)
            step = following
            times.append(mapper.now)
        assert times[-1] - times[0] > 5.0
        assert {step.method for _ in range(2)} <= {"UpdateDevice", "RegisterDevice"}
        mapper.peer.failed(step, mapper.now, SOURCE)
        mapper.device("b", "m", desired=f"{value}")
        other = mapper.peer.next(mapper.now)
        assert isinstance(other, MapperStep) and other.key.id == "ns/b"
        mapper.peer.succeeded(other)


def test_an_object_that_was_refused_often_makes_no_other_wait() -> None:
    mapper = FakeMapper()
    longest = Mock(uniform=lambda _shortest, longest: longest)
    for name, refusals in (("often", 6), ("once", 1)):
        mapper.model(name)
        step = mapper.peer.next(0.0)
        assert isinstance(step, MapperStep)
        for _ in range(refusals):
            mapper.peer.failed(step, 0.0, longest)
    assert mapper.peer.next(0.0) == 1.0


def test_a_model_that_goes_while_its_call_is_refused_is_not_thought_of_again() -> None:
    mapper = FakeMapper()
    mapper.model("m")
    step = mapper.peer.next(0.0)
    assert isinstance(step, MapperStep)
    mapper.remove("model", "m")
    mapper.peer.failed(step, 0.0, SOURCE)
    assert mapper.peer.next(1e6) is None


def test_a_device_that_a_new_process_lacks_is_not_removed_for_ever() -> None:
    """The device went while the mapper was away; the framework refuses to remove what it does not have."""
    mapper = FakeMapper()
    mapper.model("m")
    mapper.device("a", "m")
    mapper.run()
    mapper.remove("device", "a")
    mapper.restart()
    mapper.run()
    assert 1 < mapper.methods.count("RemoveDevice") <= MOST_REMOVALS
    assert mapper.peer.next(mapper.now + 1e6) is None


def test_a_device_that_goes_when_its_mapper_may_have_been_restarted_is_removed() -> None:
    """The mapper has it if it was not."""
    mapper = FakeMapper()
    mapper.model("m")
    mapper.device("a", "m")
    mapper.run()
    mapper.peer.forget()
    mapper.remove("device", "a")
    mapper.run()
    assert mapper.devices == {}


def test_a_mapper_that_begins_is_asked_to_remove_nothing() -> None:
    mapper = FakeMapper()
    mapper.model("m")
    mapper.device("a", "m")
    mapper.run()
    mapper.peer.begin()
    mapper.models.clear()
    mapper.devices.clear()
    mapper.methods.clear()
    mapper.remove("device", "a")
    mapper.run()
    assert mapper.methods == ["CreateDeviceModel"]


def test_an_answer_from_before_a_restart_does_not_count() -> None:
    """A call that the earlier process took is made again."""
    mapper = FakeMapper()
    mapper.model("m")
    step = mapper.peer.next(0.0)
    assert isinstance(step, MapperStep)
    mapper.restart()
    mapper.peer.succeeded(step)
    assert mapper.peer.failed(step, 0.0, random.Random(0)) == 0  # noqa: S311 - of a delay
    mapper.run()
    assert list(mapper.models) == ["ns/m"]


_NAMES = st.sampled_from("ab")
_STEP = st.one_of(
    st.tuples(
        st.just("model"), _NAMES, st.sampled_from(["demo", "other"]), st.sampled_from(["", "u"]), st.sampled_from("16")
    ),
    st.tuples(
        st.just("device"),
        _NAMES,
        _NAMES,
        st.sampled_from(["", "demo", "other"]),
        st.sampled_from(["", "1", "6"]),
        st.sampled_from(["", "u1", "u2"]),
    ),
    st.tuples(st.just("desire"), _NAMES, st.sampled_from(["", "1", "5", "7"])),
    st.tuples(st.just("remove"), st.sampled_from(["model", "device"]), _NAMES),
    st.tuples(st.just("restart")),
    st.tuples(st.just("run"), st.integers(0, 4)),
)


def _seen(catalogue: Catalogue) -> dict[tuple[str, Key], bytes]:
    """Return the digest of each object for each protocol."""
    keys = [Key("model", f"ns/{name}") for name in "ab"] + [Key("device", f"ns/{name}") for name in "ab"]
    found = {(each, key): catalogue.wanted(each, key) for each in ("demo", "other") for key in keys}
    return {place: one.digest for place, one in found.items() if one is not None}


@settings(max_examples=80, deadline=None)
@given(steps=st.lists(_STEP, max_size=25))
def test_the_marks_of_a_change_name_all_that_differs_for_a_mapper(steps: list[Any]) -> None:
    """And an object that was removed and comes again is a new one; nobody else's device goes to a mapper."""
    marked: set[Mark] = set()
    mapper = FakeMapper()
    mapper._mark = marked.update  # type: ignore[method-assign, assignment]
    changes = [step for step in steps if step[0] in ("model", "device", "desire", "remove")]
    for name, *arguments in changes:
        before = _seen(mapper.catalogue)
        marked.clear()
        getattr(mapper, name)(*arguments)
        after = _seen(mapper.catalogue)
        assert {place for place in before | after if before.get(place) != after.get(place)} <= marked
        assert len({key for _, key in after if key.kind == "device"}) == sum(key.kind == "device" for _, key in after)
        for protocol, key in after:
            assert key in set(mapper.catalogue.keys(protocol))
    for kind, one in [("device", "a"), ("device", "b"), ("model", "a"), ("model", "b")]:
        mapper.remove(kind, one)
    assert memories_of("ns/", mapper.catalogue.__dict__, ("modules.edge.dmi",)) == []


@settings(max_examples=80, deadline=None)
@given(steps=st.lists(_STEP, max_size=25))
def test_after_any_failures_the_mapper_has_its_devices_in_the_end(steps: list[Any]) -> None:
    """Changes, deletions, refusals and new processes in any order; and it is never told what its model forbids."""
    mapper = FakeMapper()
    for name, *arguments in steps:
        getattr(mapper, name)(*arguments)
    mapper.run()
    models, devices = mapper.expected()
    assert mapper.models == models
    assert mapper.devices == devices
