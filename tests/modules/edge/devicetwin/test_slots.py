"""Devices in memory, and a store whose commits end when the test says."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modules.edge.devicetwin.answers import Publication
from modules.edge.devicetwin.slots import Done, Slots
from modules.edge.devicetwin.state import Device, Side, Twin, confirmed


class SlowStore:
    """Commits that wait for `end`."""

    def __init__(self) -> None:
        self.saved: dict[str, Device] = {}
        self._under_way: list[tuple[Device, Done]] = []

    def save(self, device: Device, then: Done) -> None:
        """Begin a commit."""
        self._under_way.append((device, then))

    def remove(self, device_id: str, then: Done) -> None:
        """Not used here."""
        raise NotImplementedError(device_id, then)

    def end(self, *, stored: bool = True) -> bool:
        """End the oldest commit; return whether there was one."""
        if not self._under_way:
            return False
        device, then = self._under_way.pop(0)
        if stored:
            self.saved[device.id] = device
        then(stored)
        return True


def _device(number: int) -> Device:
    actual = Side(str(number), due=number, told=True)
    return Device("ns/thermo", number=number, twins={"t": Twin(actual=actual)})


class Owner:
    """Keeps what was committed."""

    def __init__(self) -> None:
        self.devices: list[Device | None] = []

    def publish(self, said: Publication) -> None:
        """Not looked at here."""

    def committed(self, before: Device | None, device: Device | None) -> None:
        """Keep a device."""
        self.devices.append(device)


def _slots(store: SlowStore) -> Slots:
    return Slots(store, Owner())


def _due(store: SlowStore) -> int:
    side = store.saved["ns/thermo"].twins["t"].actual
    return side.due if side is not None else 0


class RemovingStore(SlowStore):
    """Removes devices, too."""

    def __init__(self) -> None:
        super().__init__()
        self.removed: list[str] = []

    def remove(self, device_id: str, then: Done) -> None:
        """Begin a removal."""
        self.removed.append(device_id)
        self._under_way.append((Device(device_id), then))


def test_a_device_whose_confirmation_comes_during_its_removal_is_removed_once() -> None:
    store = RemovingStore()
    slots = _slots(store)
    slots.load([_device(1)])
    slots.remove("ns/thermo", ())
    slots.amend("ns/thermo", lambda device: confirmed(device, 1))
    slots.flush()
    assert store.end()
    assert (store.removed, len(slots)) == (["ns/thermo"], 0)


def test_who_removes_a_device_again_when_it_is_removed_is_answered() -> None:
    store, said = RemovingStore(), list[bool]()
    slots = _slots(store)
    slots.load([_device(1)])
    slots.remove("ns/thermo", (), done=lambda _: slots.remove("ns/thermo", (), done=said.append))
    assert store.end()
    assert (said, len(slots)) == ([True], 0)


@pytest.mark.parametrize("stored", [True, False])
def test_who_repeats_a_change_is_answered_when_it_is_stored(*, stored: bool) -> None:
    """A device that sends its value twice: the second message must not be acknowledged before the first is saved."""
    store, said = SlowStore(), list[bool]()
    slots = _slots(store)
    for _ in range(2):
        slots.change(_device(1), done=said.append)
    assert said == []
    while store.end(stored=stored):
        pass
    assert said == [stored, stored]


def test_a_confirmation_that_comes_while_its_device_is_saved_is_stored_too() -> None:
    """Otherwise the value is sent again after a restart."""
    store, owner = SlowStore(), Owner()
    slots = Slots(store, owner)
    slots.change(_device(1))
    slots.amend("ns/thermo", lambda device: confirmed(device, 1))
    slots.flush()
    while store.end():
        pass
    assert _due(store) == 0
    assert [after and after.number for after in owner.devices] == [1, 1]
    assert [after and after.twins_are_due for after in owner.devices] == [False, False], "or the cloud is told again"


def test_a_confirmation_that_a_change_has_stored_is_not_stored_again() -> None:
    store = SlowStore()
    slots = _slots(store)
    slots.change(_device(1))
    store.end()
    slots.amend("ns/thermo", lambda device: confirmed(device, 1))
    slots.change(_device(2))
    store.end()
    slots.flush()
    assert not store.end()


def test_a_confirmation_whose_commit_fails_is_stored_by_the_next_flush() -> None:
    store = SlowStore()
    slots = _slots(store)
    slots.change(_device(1))
    store.end()
    slots.amend("ns/thermo", lambda device: confirmed(device, 1))
    slots.flush()
    store.end(stored=False)
    assert _due(store) == 1
    slots.flush()
    store.end()
    assert _due(store) == 0


class DurableStore(SlowStore):
    """Has a device, or none."""

    def remove(self, device_id: str, then: Done) -> None:
        """Begin a removal."""
        self._under_way.append((Device(device_id, number=-1), then))

    @property
    def device(self) -> Device | None:
        """What a restart would find."""
        found = self.saved.get("ns/thermo")
        return None if found is None or found.number < 0 else found


def _confirmed(number: int, device: Device) -> Device:
    return confirmed(device, number)


def _number(device: Device | None) -> int:
    return 0 if device is None else device.number


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["change", "change", "remove", "confirm", "stored", "failed"]), max_size=15))
def test_each_change_is_answered_once_when_what_is_stored_is_known(steps: list[str]) -> None:
    """Whatever comes while others are stored or undone."""
    store, said, ends = DurableStore(), list[int](), dict[int, list[bool]]()

    class Checking(Owner):
        """Compares what is known with what is stored."""

        def publish(self, publication: Publication) -> None:
            """Note an answer."""
            assert _number(slots.saved("ns/thermo")) == _number(store.device)
            said.append(int(publication.payload))

    slots = Slots(store, Checking())

    def done(number: int, stored: bool) -> None:
        assert _number(slots.saved("ns/thermo")) == _number(store.device)
        ends[number].append(stored)

    for number, step in enumerate(steps, 1):
        told, refused = (Publication("t", b"%d" % each) for each in (number, -number))
        if step == "change":
            ends[number] = []
            slots.change(_device(number), (told,), refused, partial(done, number))
        elif step == "remove":
            ends[number] = []
            slots.remove("ns/thermo", (told,), partial(done, number))
        elif step == "confirm":
            slots.amend("ns/thermo", partial(_confirmed, number))
            slots.flush()
        else:
            store.end(stored=step == "stored")
    while store.end():
        pass
    assert all(len(each) == 1 for each in ends.values())
    has_refusal = {number for number in ends if steps[number - 1] == "change"}
    answers = {number if stored else -number for number, (stored,) in ends.items() if stored or number in has_refusal}
    assert sorted(said) == sorted(answers)
    slots.flush()
    store.end()
    assert slots.saved("ns/thermo") == slots.get("ns/thermo") == store.device


def test_whoever_changes_a_device_when_it_is_committed_is_answered_once() -> None:
    """Who gets the answer changes it, and so does who is told of the commit: one commit at a time."""
    store, said, left = SlowStore(), list[str](), [2]

    class Changing(Owner):
        """Changes the device again at the first commit."""

        def committed(self, before: Device | None, device: Device | None) -> None:
            """Change it."""
            if left:
                slots.change(_device(left.pop() + 1), done=lambda _: said.append("told"))

    def answered(_stored: bool) -> None:
        said.append("first")
        slots.change(_device(2), done=lambda _: said.append("answered"))

    slots = Slots(store, Changing())
    slots.change(_device(1), done=answered)
    while store.end():
        assert len(store._under_way) <= 1
    assert (said, slots.saved("ns/thermo")) == (["first", "answered", "told"], _device(3))


def test_whoever_changes_a_device_when_a_change_is_undone_is_answered() -> None:
    store, said = SlowStore(), list[bool]()
    slots = _slots(store)
    slots.change(_device(1), done=lambda _: slots.change(_device(2), done=said.append))
    store.end(stored=False)
    while store.end():
        pass
    assert (said, slots.saved("ns/thermo")) == ([True], _device(2))


def test_changes_that_are_undone_are_refused_in_their_order() -> None:
    store, said = SlowStore(), list[int]()
    slots = _slots(store)
    for number in (1, 2, 3):
        slots.change(_device(number), done=lambda _stored, number=number: said.append(number))  # type: ignore[misc]
    store.end(stored=False)
    assert said == [1, 2, 3]


def test_a_commit_is_published_then_answered_and_then_told() -> None:
    """An application has its answer when the cloud and the watchers have the value, and none before the commit."""
    store, order = SlowStore(), list[str]()

    class Told(Owner):
        """Notes what it is told, and when."""

        def publish(self, said: Publication) -> None:
            """Note a publication."""
            order.append(said.topic)

        def committed(self, before: Device | None, device: Device | None) -> None:
            """Note a commit."""
            order.append(f"from {before and before.number} to {device and device.number}")

    slots = Slots(store, Told())
    for number in (1, 2):
        slots.change(_device(number), (Publication(f"p{number}", b""),), done=lambda _stored: order.append("answered"))
    assert order == []
    while store.end():
        pass
    assert order == ["p1", "answered", "from None to 1", "p2", "answered", "from 1 to 2"]
