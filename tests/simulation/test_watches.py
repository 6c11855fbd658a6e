"""What the simulation watches, seen for itself: each watch says what is wrong, and nothing of what is right."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import cast
from unittest import mock

import msgspec
import pytest

from beehive import Message
from beehive.codec import encode as encode_frame
from beehive.names import ModuleName, Operation
from beehive.simulation import VirtualClock
from edged.pods import labels
from edged.pods.model import PodUid
from metamanager.rows import Row
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.types import ObjectMeta, Pod, PodSpec, PodStatus
from modules.cloud.storage.object_storage import EventType
from modules.edge.devicetwin.state import Device, Twin, encode
from modules.edge.devicetwin.state import Side as TwinSide
from modules.lab.simulate.broker import SimulatedBroker
from modules.lab.simulate.convergence import of_references
from modules.lab.simulate.device_watch import TEMPERATURE, DeviceWatch
from modules.lab.simulate.disk import DATABASE
from modules.lab.simulate.ended_watch import EndedWatch
from modules.lab.simulate.machine import Machine
from modules.lab.simulate.repetition_watch import RepetitionWatch
from modules.lab.simulate.row_watch import RowWatch
from modules.lab.simulate.runtime_watch import RuntimeWatch
from modules.lab.simulate.status_watch import StatusWatch, unlike
from modules.lab.simulate.wire_watch import WireWatch
from modules.lab.simulate.workload_watch import WorkloadWatch
from modules.lab.simulate.world import World
from protos.cri.v1 import api_pb2 as pb

KEY = "default/pod/a"


@pytest.fixture
def world() -> Iterator[World]:
    with World(1) as world:
        yield world


def row(version: int, uid: str = "u") -> Row:
    return Row(key=KEY, type="pod", value="{}", uid=uid, resource_version=version)


def pod(phase: str, **status: str) -> JsonObject:
    return {"metadata": {"name": "a", "uid": "u"}, "status": {"phase": phase, **status}}


def found(*phases: str) -> tuple[Pod, ...]:
    meta = ObjectMeta(name="a", namespace="default", uid=PodUid("u"))
    return tuple(Pod(metadata=meta, spec=PodSpec(), status=PodStatus(phase=phase)) for phase in phases)


@pytest.mark.parametrize(
    ("rows", "problems"),
    [
        ({"default/secret/keys": ("s", 7)}, []),
        ({"default/secret/keys": ("s", 6)}, ["row default/secret/keys is ('s', 6), in the cloud it is ('s', 7)"]),
        ({}, ["row default/secret/keys is None, in the cloud it is ('s', 7)"]),
        (
            {"default/secret/keys": ("s", 7), "default/configmap/gone": ("g", 1)},
            ["row default/configmap/gone is left over"],
        ),
    ],
)
def test_the_secrets_of_pods_are_as_in_the_cloud(rows: dict[str, tuple[str, int]], problems: list[str]) -> None:
    """Those of ended pods need not be. What the cloud lacks is gone, unless it may have lost it."""
    volumes = [{"name": "v", "secret": {"secretName": "keys"}}, {"name": "w", "configMap": {"name": "gone"}}]
    ended = {"spec": {"volumes": [{"name": "v", "secret": {"secretName": "old"}}]}, "status": {"phase": "Failed"}}
    pods: dict[str, JsonObject] = {"u": {"spec": {"volumes": volumes}}, "e": ended}
    secret: JsonObject = {"metadata": {"uid": "s", "resourceVersion": "7"}}
    found = of_references(rows, pods, lambda _kind, _namespace, name: None if name == "gone" else secret)
    assert list(found) == problems
    lost = of_references({"default/configmap/gone": ("g", 1)}, pods, lambda *_: None, knows_all=False)
    assert list(lost) == []


def _refusal(code: int) -> JsonObject:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": "NotFound" if code == 404 else ""}
    return {"Object": None, "Err": {"ErrStatus": status}}


@pytest.mark.parametrize(
    ("asked", "answer", "is_wrong"),
    [
        ("default/podpatch/a", _refusal(404), False),
        ("default/podpatch/a", _refusal(500), True),
        (KEY, _refusal(404), False),
        (KEY, _refusal(500), True),
        (KEY, {"metadata": {"uid": "other"}}, False),
        (KEY, {"metadata": {"uid": "third"}}, True),
        (KEY, "OK", True),
    ],
)
def test_an_object_that_the_cloud_does_not_have_may_be_followed_by_another(
    world: World, tmp_path: Path, asked: str, answer: object, *, is_wrong: bool
) -> None:
    """The answer to a query is stored, as that to a mirror pod which the node has made again, and the watch's event may
    not have come yet.
    """
    wire = WireWatch(world, "node-0", EndedWatch(world, "node-0"), {})
    clock = VirtualClock(1)
    meta = {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"}
    came = Message.new(clock, source="edgecontroller", resource=KEY, operation="insert", content={"metadata": meta})
    wire.came_down(encode_frame(came))
    wire.sent_up(encode_frame(came.reply(clock, "OK", source="metamanager")))
    report = Message.new(clock, source="edged", resource=asked, operation="patch", content="{}")
    wire.came_down(encode_frame(report.reply(clock, answer, source="x")))
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database, database:
        database.execute("CREATE TABLE meta (key, uid, resource_version)")
        database.execute("CREATE TABLE edgecore_history (id, key, cause)")
        database.execute("INSERT INTO meta VALUES (?, 'other', 8)", (KEY,))
    wire.check(tmp_path)
    assert invariants(world) == ["what is acknowledged is stored"] * is_wrong


def invariants(world: World) -> list[str]:
    return [violation.invariant for violation in world.violations]


def test_newer_rows_take_the_place_of_older_ones(world: World) -> None:
    watch = RowWatch(world, "n")
    for each in (row(9), row(10), row(10), row(1, "another")):
        watch.put(each, taken=True)
    watch.put(row(0), taken=True)
    assert invariants(world) == []


@pytest.mark.parametrize(("version", "taken"), [(9, True), (11, False)])
def test_an_older_row_taken_and_a_newer_one_refused_are_seen(world: World, version: int, *, taken: bool) -> None:
    watch = RowWatch(world, "n")
    watch.put(row(10), taken=True)
    watch.put(row(version), taken=taken)
    assert invariants(world) == ["no older state over a newer one"]


def test_a_deleted_object_is_seen_when_it_comes_back(world: World) -> None:
    watch = RowWatch(world, "n")
    watch.put(row(3), taken=True)
    watch.deleted(KEY, "u")
    watch.put(row(1, "another"), taken=True)
    assert invariants(world) == []
    watch.put(row(4), taken=True)
    assert invariants(world) == ["what was deleted does not come back"]


def test_uncommitted_rows_are_forgotten(world: World) -> None:
    watch = RowWatch(world, "n")
    watch.put(row(3), taken=True)
    watch.committed()
    watch.put(row(5), taken=True)
    watch.deleted(KEY, "u")
    watch.begin()
    watch.put(row(4), taken=True)
    assert invariants(world) == []


def test_statuses_that_were_found_may_come_in_their_order(world: World) -> None:
    watch = StatusWatch(world)
    for phase in ("Pending", "Running", "Pending"):
        watch.found(found(phase))
    watch.stored(pod("Pending"), pod("Running"))
    watch.stored(pod("Running"), pod("Pending"))
    watch.stored(pod("Pending"), pod("Pending", qosClass="Burstable"))
    assert invariants(world) == []


def test_an_older_status_and_an_invented_one_are_seen(world: World) -> None:
    watch = StatusWatch(world)
    watch.found(found("Pending"))
    watch.found(found("Running"))
    watch.stored(pod(""), pod("Running"))
    watch.stored(pod("Running"), pod("Pending"))
    watch.stored(pod("Running"), pod("Failed"))
    assert invariants(world) == ["no older state over a newer one", "the cloud has what the node found"]


def test_what_others_write_is_theirs_until_it_is_put_right(world: World) -> None:
    watch = StatusWatch(world)
    watch.found(found("Running"))
    watch.others_write(pod("Running"))()
    watch.stored(pod("Running"), pod("Running", reason="NodeLost"))
    watch.stored(pod("Running", reason="NodeLost"), pod("Running"))
    assert invariants(world) == []
    watch.stored(pod("Running"), pod("Running", reason="NodeLost"))
    assert invariants(world) == ["the cloud has what the node found"]


def test_what_others_write_is_theirs_as_long_as_their_write_waits(world: World) -> None:
    """The node's own status is stored while the other write waits for the database."""
    watch = StatusWatch(world)
    watch.found(found("Running"))
    ended = watch.others_write(pod("Pending"))
    watch.stored(pod("Pending"), pod("Running"))
    watch.stored(pod("Running"), pod("Running", reason="NodeLost"))
    ended()
    watch.stored(pod("Running", reason="NodeLost"), pod("Running"))
    assert invariants(world) == []
    watch.stored(pod("Running"), pod("Running", reason="NodeLost"))
    assert invariants(world) == ["the cloud has what the node found"]


def test_what_others_write_may_come_to_another_pod_of_the_name(world: World) -> None:
    """A write that waits for the database, and is by name, finds the pod that was made meanwhile."""
    watch = StatusWatch(world)
    ended = watch.others_write(pod("Running"))
    new = {**pod("Pending"), "metadata": {**pod("")["metadata"], "uid": "another"}}
    watch.stored({**new, "status": {}}, {**new, "status": {"phase": "Pending", "podIP": "198.51.100.1"}})
    ended()
    assert invariants(world) == []


def deletion() -> Message:
    content = {"preconditions": {"uid": "u"}}
    return Message.new(
        VirtualClock(1), source=ModuleName.EDGED, resource=KEY, operation=Operation.DELETE,
        content=msgspec.Raw(msgspec.json.encode(content)),
    )  # fmt: skip


@pytest.mark.parametrize(("uid", "state", "seen"), [
    ("u", pb.CONTAINER_RUNNING, 1), ("u", pb.CONTAINER_EXITED, 0), ("v", pb.CONTAINER_RUNNING, 0),
])  # fmt: skip
def test_a_deletion_is_seen_that_is_reported_while_something_runs(
    world: World, uid: str, state: "pb.ContainerState.ValueType", seen: int
) -> None:
    container = pb.ContainerStatus(id="c", state=state, labels={labels.POD_UID: uid})
    EndedWatch(world, "n").sent_up(deletion(), [container])
    assert len(world.violations) == seen


def test_a_start_long_after_the_deletion_is_seen(world: World) -> None:
    watch = EndedWatch(world, "n")
    watch.deletion_acknowledged("u")
    world.run_for(60)
    watch.starts("u", "a container")
    assert invariants(world) == []
    world.run_for(120)
    watch.starts("another", "a container")
    watch.starts("u", "a container")
    assert invariants(world) == ["what was deleted does not come back"]


def test_a_violation_names_the_fields_that_differ_and_who_wrote_last(world: World) -> None:
    watch = StatusWatch(world)
    watch.found(found("Pending", "Running"))
    watch.stored(pod(""), pod("Running"))
    watch.stored(pod("Running"), pod("Running", podIP="192.0.2.9"))
    (violation,) = world.violations
    what = "a (u) has a status that its node never found"
    assert violation.text == f"{what}: podIP is '192.0.2.9', not None; last written by its node at 0.000 s"


class _Runtime:
    """What a machine's runtime has, as `RuntimeWatch` reads it."""

    def __init__(self) -> None:
        self.sandboxes: dict[str, pb.PodSandboxStatus] = {}
        self.containers: dict[str, pb.ContainerStatus] = {}


def _attempt(number: int) -> pb.ContainerConfig:
    of = {labels.POD_UID: "u", labels.POD_NAME: "a"}
    return pb.ContainerConfig(metadata=pb.ContainerMetadata(name="main", attempt=number), labels=of)


def _run(watch: RuntimeWatch, runtime: _Runtime) -> None:
    config = _attempt(4)
    runtime.sandboxes["s"] = pb.PodSandboxStatus(id="s", metadata=pb.PodSandboxMetadata(name="a", uid="u"))
    runtime.containers["c"] = pb.ContainerStatus(id="c", metadata=config.metadata, labels=dict(config.labels))
    watch.after("start_container", ("c",), None)


@pytest.mark.parametrize(("restored", "removed"), [(False, True), (True, False), (True, True)])
def test_attempts_start_over_when_a_pod_of_before_a_restore_comes_back(
    world: World, *, restored: bool, removed: bool
) -> None:
    """A cloudcore that runs on after its API server was restored gives a node pods that the server no longer has."""
    runtime = _Runtime()
    watch = RuntimeWatch(world, "n", cast(Machine, runtime))
    _run(watch, runtime)
    if restored:
        watch.restored()
    if removed:
        del runtime.sandboxes["s"]
        watch.after("remove_pod_sandbox", ("s",), None)
    watch.before("create_container", ("t", _attempt(0)))
    assert bool(world.violations) is not (restored and removed)


def test_fields_are_compared_member_by_member() -> None:
    has = {"same": 1, "list": [{"a": 1, "b": 2}], "long": [1], "gone": None}
    wanted = {"same": 1, "list": [{"a": 1, "b": 3}], "long": [1, 2], "gone": {"c": "d"}}
    expected = ["gone is None, not {'c': 'd'}", "list[0].b is 2, not 3", "long is [1], not [1, 2]"]
    assert list(unlike(has, wanted)) == expected


@pytest.mark.parametrize(
    ("minutes", "wrong"), [((1, 2, 4), False), ((0,), True), ((-300,), True), ((1, 1), True), ((2, 1), True)]
)
def test_a_cron_job_makes_jobs_for_times_after_its_creation_in_their_order(
    world: World, minutes: tuple[int, ...], *, wrong: bool
) -> None:
    """Whether or not the Job of a former time is still there."""
    created = datetime(2026, 11, 25, 4, tzinfo=UTC)
    meta = {"name": "tick", "uid": "c", "creationTimestamp": "2026-11-25T04:00:00Z"}
    cron_job = {"kind": "CronJob", "metadata": meta, "spec": {}}
    watch = WorkloadWatch(lambda kind: [cron_job] if kind == "CronJob" else [], world.now, world.violated)
    for number, minute in enumerate(minutes):
        time = (created + timedelta(minutes=minute)).astimezone(timezone(timedelta(hours=1))).isoformat()
        owner = {"kind": "CronJob", "name": "tick", "uid": "c", "controller": True}
        annotations = {"batch.kubernetes.io/cronjob-scheduled-timestamp": time}
        job = {"name": f"tick-{number}", "uid": f"j{number}", "ownerReferences": [owner], "annotations": annotations}
        watch.changed(EventType.ADDED, {"kind": "Job", "metadata": job, "spec": {}}, None)
    assert bool(invariants(world)) == wrong


@pytest.mark.parametrize(("deletions", "is_lost"), [(2, False), (1, True)])
def test_each_deletion_of_a_device_excuses_one_loss_of_its_reports(
    world: World, deletions: int, *, is_lost: bool
) -> None:
    """The node may take several deletions late, after the reports of the device that came last were answered; a commit
    removes a row and writes it again.
    """
    broker = mock.Mock(spec=SimulatedBroker, holds=lambda _: False)
    watch = DeviceWatch(world, "n", broker)

    def commit(uid: str, report: int, *, is_removed: bool = False) -> None:
        watch.put(Row(key="default/device/d", type="device", value="{}", uid=uid, resource_version=1))
        if is_removed:
            watch.deleted("default/devicetwin/d")
        twins = {TEMPERATURE: Twin(actual=TwinSide(value=str(report), edge=1))} if report else {"t": Twin()}
        value = encode(Device("default/d", twins=twins)).decode()
        watch.put(Row(key="default/devicetwin/d", type="devicetwin", value=value))
        watch.committed()
        if report:
            watch.answered("default/d", report)

    commit("u", 1)
    for _ in range(deletions):
        watch.deleted("default/device/d")
    commit("v", 2, is_removed=True)
    commit("v", 0)
    watch.check(Path("/nowhere"))
    assert ("no answered report is lost" in invariants(world)) is is_lost


@pytest.mark.parametrize(("remade", "is_seen"), [("deleted", False), ("another", False), ("", True)])
def test_versions_of_a_device_begin_again_only_with_another_object(world: World, remade: str, *, is_seen: bool) -> None:
    """One that is made again immediately takes the place of the old one in a single commit, whatever its number."""
    watch = DeviceWatch(world, "n", cast(SimulatedBroker, None))

    def put(uid: str, edge: int) -> None:
        device = Device("default/d", number=2, twins={"t": Twin(actual=TwinSide(edge=edge))})
        watch.put(Row(key="default/device/d", type="device", value="{}", uid=uid, resource_version=1))
        watch.put(Row(key="default/devicetwin/d", type="devicetwin", value=encode(device).decode()))
        watch.committed()

    put("u", 1)
    if remade == "deleted":
        watch.deleted("default/device/d")
    put("v" if remade == "another" else "u", 0)
    assert ("versions of a device never fall" in invariants(world)) is is_seen
    put("v" if remade == "another" else "u", 1)
    put("v" if remade == "another" else "u", 0)
    assert "versions of a device never fall" in invariants(world), "once for each object"


def _frame(world: World, operation: str, content: object, parent: str = "", resource: str = KEY) -> Message:
    return Message.new(
        world.scheduler.clock, source=ModuleName.EDGED, resource=resource, operation=operation,
        content=msgspec.Raw(msgspec.json.encode(content)), parent_id=parent,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "is_wrong"),
    [
        ("insert-1 ack later insert-1", True),
        ("insert-1 ack insert-1", False),
        ("insert-1 insert-1 ack", False),
        ("insert-1 ack update-2 ack", False),
        ("insert-1 ack update-2 insert-1", False),
        ("insert-1 ack delete- ack insert-1", False),
        ("insert-1 ack delete- ack delete-", False),
        ("update-2 ack later update-2", True),
    ],
)
def test_the_newest_acknowledged_state_is_not_sent_again(world: World, steps: str, *, is_wrong: bool) -> None:
    """Another one may be: the node may need the object again. An acknowledgement that comes in the moment of a
    repetition may be behind it in cloudhub's inbox.
    """
    watch, last = RepetitionWatch(world, "n1", lambda: False), ""
    for step in steps.split():
        operation, _, version = step.partition("-")
        if operation == "later":
            world.run_for(1.0)
            continue
        if operation == "ack":
            watch.handled(encode_frame(_frame(world, Operation.RESPONSE, "OK", last)))
            continue
        sent = _frame(world, operation, {"metadata": {"name": "a", "uid": "u", "resourceVersion": version}})
        watch.sent(encode_frame(sent))
        last = sent.id
    assert [each.invariant for each in world.violations] == ["what is acknowledged is not sent again"] * is_wrong


@pytest.mark.parametrize(
    ("steps", "is_wrong"),
    [
        ("insert-a insert-b delete-a", True),
        ("insert-b delete-a", True),
        ("insert-a delete-a insert-b", False),
        ("insert-a delete-a insert-b delete-a", False),
        ("insert-a update-a delete-a", False),
        ("insert-a insert-b delete-b delete-a", False),
    ],
)
@pytest.mark.parametrize(("kind", "has_lost"), [("pod", False), ("pod", True), ("configmap", False)])
def test_the_deletion_of_a_pod_comes_before_the_next_pod_of_its_name(
    world: World, kind: str, steps: str, *, has_lost: bool, is_wrong: bool
) -> None:
    """It may be repeated after that. Of other objects, which an edge deletes by name, there may be none."""
    watch = RepetitionWatch(world, "n1", lambda: has_lost)
    for version, step in enumerate(steps.split()):
        operation, _, uid = step.partition("-")
        metadata = {"name": "x", "uid": uid, "resourceVersion": str(version)}
        watch.sent(encode_frame(_frame(world, operation, {"metadata": metadata}, resource=f"default/{kind}/x")))
    assert [each.invariant for each in world.violations] == (
        ["a pod is deleted before the next of its name comes"] if is_wrong and kind == "pod" and not has_lost else []
    )
