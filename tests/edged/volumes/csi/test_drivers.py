"""Registration of drivers, the node's annotations for them, and the rules of CSIDriver objects."""

import json
import queue
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import grpc
import msgspec
import pytest

from beehive import Operation
from beehive.runtime import Threads
from edged.errors import PluginError
from edged.plugins.watcher import Plugin
from edged.sync_events import PluginsChanged
from edged.volumes.csi import rules
from edged.volumes.csi.client import CsiClient
from edged.volumes.csi.controller import KUBEEDGE_DRIVER, ControllerRequest, CsiController, carry_out, driver_of
from edged.volumes.csi.drivers import CsiDrivers, with_drivers
from edged.volumes.csi.model import CsiVolume, NodeCapability
from modules.apimachinery.csi_drivers import DRIVERS_ANNOTATION, NODE_ID_ANNOTATION
from modules.apimachinery.types.persistent import CSIDriver, CSIDriverSpec
from tests.edged.posted import Posted
from tests.support.csi_driver import NAME, CsiDriver
from tests.support.patience import PATIENCE


@pytest.fixture
def driver(directory: Path) -> Iterator[CsiDriver]:
    with CsiDriver(directory) as made:
        yield made


class Registered:
    def __init__(self) -> None:
        self.posted = Posted[PluginsChanged]()
        self.drivers = CsiDrivers(self.posted)

    @property
    def changes(self) -> int:
        return len(self.posted)


@pytest.fixture
def registered() -> Iterator[Registered]:
    made = Registered()
    yield made
    made.drivers.close()


def plugin(driver: CsiDriver, *versions: str) -> Plugin:
    return Plugin(NAME, driver.socket, versions or ("1.5.0",))


def test_a_driver_is_known_with_its_name_of_the_node(registered: Registered, driver: CsiDriver) -> None:
    driver.most_volumes = 8
    registered.drivers.register(plugin(driver))
    found, _ = registered.drivers.get(NAME)
    assert found.node_id == f"{NAME}-node-7"
    assert found.capabilities == {NodeCapability.STAGE_UNSTAGE_VOLUME}
    assert registered.drivers.labels() == {f"topology.{NAME}/node": "here"}
    note = f'{{"{NAME}":{{"topologyKeys":["topology.{NAME}/node"],"count":8}}}}'
    known = {"a": "b", NODE_ID_ANNOTATION: f'{{"{NAME}":"{NAME}-node-7"}}', DRIVERS_ANNOTATION: note}
    assert registered.drivers.annotations({"a": "b"}) == known
    registered.drivers.deregister(msgspec.structs.replace(plugin(driver), endpoint=Path("/another")))
    assert registered.drivers.names() == [NAME], "it has registered under another socket meanwhile"
    registered.drivers.deregister(plugin(driver))
    assert (registered.drivers.names(), registered.drivers.annotations(known), registered.changes) == (
        [],
        {"a": "b"},
        2,
    )
    with pytest.raises(PluginError, match=f"driver name {NAME} not found"):
        registered.drivers.get(NAME)


@pytest.mark.parametrize(("versions", "message"), [(("0.3.0",), r"0\.3\.0.*1\.x is wanted"), (("2.0",), "1.x")])
def test_versions_that_are_not_spoken_are_refused(
    registered: Registered, driver: CsiDriver, versions: tuple[str, ...], message: str
) -> None:
    with pytest.raises(PluginError, match=message):
        registered.drivers.register(plugin(driver, *versions))
    assert registered.changes == 0


def test_a_driver_that_cannot_say_who_the_node_is_is_not_registered(registered: Registered, driver: CsiDriver) -> None:
    driver.fail("NodeGetInfo", grpc.StatusCode.UNAVAILABLE, "the disks are asleep")
    with patch.object(CsiClient, "close", autospec=True, side_effect=CsiClient.close) as closed:
        with pytest.raises(PluginError, match=r"NodeGetInfo failed.*the disks are asleep"):
            registered.drivers.register(plugin(driver))
        with patch.object(CsiClient, "node_capabilities", side_effect=MemoryError), pytest.raises(MemoryError):
            registered.drivers.register(plugin(driver))
    assert (registered.drivers.names(), closed.call_count) == ([], 2)


def test_a_driver_that_comes_again_or_goes_ends_the_calls_of_its_former_connection(
    registered: Registered, driver: CsiDriver
) -> None:
    """A call to a driver that hangs would keep its pod's worker for two minutes."""
    registered.drivers.register(plugin(driver))
    _, former = registered.drivers.get(NAME)
    with patch.object(CsiClient, "close", autospec=True, side_effect=CsiClient.close) as closed:
        registered.drivers.register(plugin(driver))
        _, present = registered.drivers.get(NAME)
        assert [call.args for call in closed.call_args_list] == [(former,)]
        registered.drivers.deregister(plugin(driver))
        assert [call.args for call in closed.call_args_list] == [(former,), (present,)]
        registered.drivers.close()
    assert closed.call_count == 2, "it is not kept"
    assert registered.changes == 3


def test_a_driver_that_comes_again_has_its_name_of_the_node_again(registered: Registered, driver: CsiDriver) -> None:
    for each in (registered.drivers.register, registered.drivers.deregister, registered.drivers.register):
        each(plugin(driver))
    assert registered.drivers.annotations({})[NODE_ID_ANNOTATION] == ids(**{NAME: f"{NAME}-node-7"})[NODE_ID_ANNOTATION]


def ids(**names: str) -> dict[str, str]:
    return {NODE_ID_ANNOTATION: json.dumps(names, separators=(",", ":"))} if names else {}


@pytest.mark.parametrize(
    ("known", "here", "gone", "expected"),
    [
        ({}, {}, [], {}),
        ({"x": "y"}, {"a": "1"}, [], {"x": "y", **ids(a="1")}),
        (ids(b="2"), {"a": "1"}, [], ids(a="1", b="2")),
        (ids(a="0"), {"a": "1"}, [], ids(a="1")),
        (ids(a="1", b="2"), {}, ["a"], ids(b="2")),
        (ids(a="1"), {}, ["a"], {}),
        (ids(a="1"), {"a": "2"}, ["a"], ids(a="2")),
        ({NODE_ID_ANNOTATION: "nonsense"}, {"a": "1"}, [], ids(a="1")),
        ({NODE_ID_ANNOTATION: "[1]"}, {}, [], {}),
    ],
)
def test_the_nodes_annotation(
    known: dict[str, str], here: dict[str, str], gone: list[str], expected: dict[str, str]
) -> None:
    """Drivers that did not register with this agent stay: they may be slower than it."""
    assert with_drivers(known, NODE_ID_ANNOTATION, here, frozenset(gone)) == expected


def policy(**spec: Any) -> CSIDriver:
    return CSIDriver(spec=CSIDriverSpec(**spec))


@pytest.mark.parametrize(
    ("driver", "attached"), [(None, True), (policy(), True), (policy(attach_required=False), False)]
)
def test_volumes_that_must_be_attached(driver: CSIDriver | None, attached: bool) -> None:
    assert rules.must_be_attached(driver) is attached


ONE = {"access_modes": ("ReadWriteOnce",), "fs_type": "ext4"}


@pytest.mark.parametrize(
    ("driver", "volume", "given"),
    [
        (None, ONE, True),
        (None, {**ONE, "fs_type": ""}, False),
        (None, {**ONE, "access_modes": ("ReadWriteMany",)}, False),
        (None, {**ONE, "access_modes": ("ReadWriteOncePod",)}, True),
        (None, {**ONE, "access_modes": ("ReadWriteMany", "ReadWriteOnce")}, True),
        (None, {**ONE, "read_only": True}, False),
        (None, {"ephemeral": True, "fs_type": "ext4"}, True),
        (policy(fs_group_policy="File"), {}, True),
        (policy(fs_group_policy="File"), {"read_only": True}, False),
        (policy(fs_group_policy="None"), ONE, False),
    ],
)
def test_which_volumes_are_given_to_the_pods_group(
    driver: CSIDriver | None, volume: dict[str, Any], given: bool
) -> None:
    assert rules.supports_fs_group(driver, CsiVolume("v", "d", "h", **volume)) is given


@pytest.mark.parametrize(
    ("names", "expected"), [(["a"], "a"), (["a", KUBEEDGE_DRIVER], KUBEEDGE_DRIVER), (["a", "b"], None), ([], None)]
)
def test_which_driver_the_cloud_means(names: list[str], expected: str | None) -> None:
    """KubeEdge names none in its messages, and its edge knows one alone."""
    if expected is not None:
        assert driver_of(names) == expected
        return
    with pytest.raises(PluginError, match=r"csi-hostpath or a single driver is wanted; registered: (a, b|none)"):
        driver_of(names)


def test_operations_of_the_cloud_are_the_drivers(registered: Registered, driver: CsiDriver) -> None:
    """Requests come in protobuf's JSON with either kind of names; answers go in Go's, as its cloud reads them."""
    registered.drivers.register(plugin(driver))

    def do(operation: Operation, **request: Any) -> dict[str, Any]:
        return carry_out(registered.drivers, operation, json.dumps(request).encode())

    made = do(Operation.CREATE_VOLUME, name="disk", capacityRange={"requiredBytes": "1024"}, newField=1)
    assert made == {"volume": {"capacity_bytes": 1024, "volume_id": "disk"}}
    assert (driver.volumes / "disk").is_dir()
    published = do(Operation.CONTROLLER_PUBLISH_VOLUME, volume_id="disk", node_id="n1", secrets={"key": "hidden"})
    assert published == {"publish_context": {"device": "/dev/sdz"}}
    assert do(Operation.CONTROLLER_UNPUBLISH_VOLUME, volumeId="disk") == {}
    assert do(Operation.DELETE_VOLUME, volumeId="disk") == {}
    assert not (driver.volumes / "disk").exists()
    with pytest.raises(PluginError, match=r"ControllerPublishVolume failed.*no volume disk; NOT_FOUND"):
        do(Operation.CONTROLLER_PUBLISH_VOLUME, volumeId="disk")
    driver.fail("ControllerPublishVolume", grpc.StatusCode.INTERNAL, "the key is hidden")
    with pytest.raises(PluginError, match="the key is <redacted>"):
        do(Operation.CONTROLLER_PUBLISH_VOLUME, volumeId="disk", secrets={"key": "hidden"})
    driver.controller = ()
    assert do(Operation.CREATE_VOLUME, name="other") == {}, "a driver without a controller is not called"
    assert not (driver.volumes / "other").exists()


@pytest.mark.parametrize("content", [b"", b"null", b"[1]", b'{"capacityRange": {"limitBytes": "hidden"}}', b"\xff"])
def test_other_texts_than_requests_are_refused_without_quoting_them(
    registered: Registered, driver: CsiDriver, content: bytes
) -> None:
    registered.drivers.register(plugin(driver))
    with pytest.raises(PluginError, match="a CreateVolumeRequest in protobuf's JSON is wanted") as raised:
        carry_out(registered.drivers, Operation.CREATE_VOLUME, content)
    assert "hidden" not in "".join(traceback.format_exception(raised.value))


def test_a_bug_at_an_operation_is_logged_without_its_secrets(
    registered: Registered, caplog: pytest.LogCaptureFixture
) -> None:
    """And answered: the cloud waits."""
    threads, answers = Threads(), queue.SimpleQueue[Any]()
    controller = threads.start(CsiController, registered.drivers)
    with patch("edged.volumes.csi.controller.driver_of", side_effect=RuntimeError("a bug")):
        controller.ref.tell(ControllerRequest(Operation.CREATE_VOLUME, b'{"secrets": {"key": "hidden"}}', answers.put))
        assert isinstance(answers.get(timeout=PATIENCE), PluginError)
    controller.ref.stop()
    assert "failed unexpectedly" in caplog.text
    assert "hidden" not in caplog.text
