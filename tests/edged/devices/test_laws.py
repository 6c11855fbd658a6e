"""Invariants under random events: pods come and go, devices break, plug-ins go, agents restart."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from beehive.simulation import Simulation
from edged.devices.manager import DeviceManager
from edged.devices.model import Device
from edged.devices.pod_devices import read_checkpoint
from edged.devices.rules import requested_devices
from edged.errors import DevicesPendingError
from edged.pods.model import PodUid
from modules.apimachinery.types import Pod, from_value
from tests.edged.conftest import pod
from tests.edged.devices.fake_plugins import RESOURCE, FakeDevicePlugin

NAMES = "abcdef"
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.integers(0, 4)),
        st.tuples(st.just("end"), st.integers(0, 4)),
        st.tuples(st.just("list"), st.dictionaries(st.sampled_from(NAMES), st.booleans())),
        st.tuples(st.just("go"), st.none()),
        st.tuples(st.just("restart"), st.none()),
    ),
    max_size=30,
)


def wanting(number: int) -> Pod:
    """Pods of several sizes; the larger ones have init containers that want some too."""
    limits = {RESOURCE: str(number % 3 + 1)}
    made = {"name": "main", "image": "i", "resources": {"limits": limits}}
    inits = [{**made, "name": "init", "resources": {"limits": {RESOURCE: "2"}}}] if number > 2 else []
    return from_value(Pod, pod(f"p{number}", initContainers=inits, containers=[made]))


class World:
    """A manager that restarts now and then, and its plug-in."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "checkpoint"
        self.simulation = Simulation(1)
        self.devices: tuple[Device, ...] = ()
        self.restart()

    def restart(self, _: object = None) -> None:
        self.manager = DeviceManager(
            self.simulation.clock, self.file, read_checkpoint(self.file, self.file.parent), lambda: None
        )

    def list(self, health: dict[str, bool]) -> None:
        """Report the devices, over a new connection each time."""
        self.devices = tuple(Device(name, healthy) for name, healthy in sorted(health.items()))
        self.plugin = FakeDevicePlugin(self.simulation).connect()
        self.manager.connect(RESOURCE, self.plugin)
        self.manager.listed(RESOURCE, self.plugin, self.devices)

    def go(self, _: object = None) -> None:
        if self.devices:
            self.manager.disconnect(RESOURCE, self.plugin)

    def start(self, number: int) -> bool:
        """Whether the pod has all that it wants now."""
        before = self.manager.pods()
        try:
            self.manager.allocate(wanting(number), anew=True)
        except DevicesPendingError:
            assert self.manager.pods() == before, "who waits takes nothing"
            return False
        return True

    def end(self, number: int) -> None:
        self.manager.release(PodUid(f"uid-p{number}"))

    def check(self) -> None:
        holders: dict[str, PodUid] = {}
        for uid, containers in self.manager.pods().items():
            wanted = wanting(int(uid[-1]))
            for container in (*wanted.spec.init_containers, *wanted.spec.containers):
                ids = containers[container.name][RESOURCE].ids
                assert len(ids) == requested_devices(container)[RESOURCE]
                assert all(holders.setdefault(device, uid) == uid for device in ids), "two pods have one device"
        assert read_checkpoint(self.file, self.file.parent).pods == self.manager.pods()


@given(STEPS)
@settings(max_examples=150, deadline=None)
def test_no_two_pods_ever_have_one_device(steps: list[tuple[str, object]]) -> None:
    """Each container has all its devices or none; the next agent knows them; a waiting pod blocks no other."""
    with TemporaryDirectory() as directory:
        world = World(Path(directory))
        for step, argument in steps:
            getattr(world, step)(argument)
            world.check()


@given(STEPS, st.integers(0, 4))
@settings(max_examples=100, deadline=None)
def test_a_pod_gets_its_devices_when_all_others_have_gone(steps: list[tuple[str, object]], number: int) -> None:
    with TemporaryDirectory() as directory:
        world = World(Path(directory))
        for step, argument in steps:
            getattr(world, step)(argument)
        for other in range(5):
            world.end(other)
        world.list(dict.fromkeys(NAMES, True))
        assert world.start(number)
