"""The records of pods, and the dead containers that they keep."""

import ast
import json
from pathlib import Path

import pytest

from edged.pod_workers.pruner import prunable
from edged.pods import manager
from edged.pods.effective_grace_period import grace_seconds
from edged.pods.facts import pod_facts
from edged.pods.kill_options import KillOptions
from edged.pods.manager import PodManager, PodRecord, references
from edged.pods.model import ContainerFacts, ContainerId, PodRef, PodUid, RunState, SandboxFacts, SandboxId
from modules.apimachinery.types import Pod, PodStatus, decode
from tests.edged.conftest import pod

UID = PodUid("uid-web")


def made(**changes: object) -> Pod:
    return decode(Pod, json.dumps(pod(**changes)).encode())  # type: ignore[arg-type]


def test_a_known_pod_keeps_the_status_that_this_node_computed() -> None:
    pods = PodManager()
    record = pods.put(made())
    assert record.set_status(PodStatus(phase="Running"))
    assert not record.set_status(PodStatus(phase="Running"))
    assert pods.put(made()) is record
    assert record.pod.status.phase == "Running"


def test_pods_are_found_by_namespace_and_name() -> None:
    pods = PodManager()
    names = [("default", "web"), ("default", "db"), ("shop", "web")]
    for namespace, name in names:
        pods.put(made(metadata={"namespace": namespace, "name": name, "uid": f"{namespace}-{name}"}))
    found = [[record.ref.uid for record in pods.by_name(*each)] for each in names]
    assert found == [["default-web"], ["default-db"], ["shop-web"]]


def test_labels_and_annotations_that_users_change_are_taken_over() -> None:
    """Volumes and variables of the downward API have them."""
    pods = PodManager()
    record = pods.put(made(metadata={"labels": {"app": "web"}, "annotations": {"note": "old"}}))
    pods.put(made(metadata={"labels": {"app": "shop"}, "annotations": {"note": "new"}}))
    assert record.pod.metadata.labels == {"app": "shop"}
    assert record.pod.metadata.annotations == {"note": "new"}


def ended() -> Pod:
    status = {"phase": "Failed", "reason": "Evicted", "message": "why", "podIP": "10.0.0.9"}
    return decode(Pod, json.dumps({**pod(), "status": status}).encode())


def test_before_the_runtime_was_asked_the_cloud_knows_better_that_a_pod_has_ended() -> None:
    """A former life of the agent has said so, and its store could not take it."""
    pods = PodManager()
    record = pods.put(made())
    record.set_status(PodStatus(phase="Pending"))
    pods.put(ended())
    assert record.pod.status == ended().status


def test_a_pod_that_this_node_has_refused_stays_so_although_an_earlier_run_was_another() -> None:
    pods = PodManager()
    record = pods.put(made())
    record.set_status(PodStatus(phase="Failed", reason="NodeAffinity"))
    containers = [{"name": "main", "containerID": "fake://c0"}]
    status = {"phase": "Running", "containerStatuses": containers}
    pods.put(decode(Pod, json.dumps({**pod(), "status": status}).encode()))
    assert record.pod.status.phase == "Failed"


@pytest.mark.parametrize("own", ["Running", "Succeeded"])
def test_a_pod_that_has_ended_for_the_cloud_has_ended_unless_it_had_already(own: str) -> None:
    pods = PodManager()
    record = pods.put(made())
    record.facts_at = 1.0
    record.set_status(PodStatus(phase=own, pod_ip="10.0.0.1"))
    pods.put(ended())
    told = PodStatus(phase="Failed", reason="Evicted", message="why", pod_ip="10.0.0.1")
    assert record.pod.status == (told if own == "Running" else PodStatus(phase=own, pod_ip="10.0.0.1"))


def test_a_pod_that_is_held_is_given_back_once_unless_it_was_dropped() -> None:
    pods = PodManager()
    for uid in (UID, "another"):
        pods.hold(made(metadata={"uid": uid}))
    pods.drop_held("default", "web", "another")
    assert pods.release(PodUid("another")) is None
    assert pods.release(UID) == (made(), True)
    assert pods.release(UID) is None
    pods.hold(made())
    pods.drop_held("other", "web")
    pods.drop_held("default", "web")
    assert pods.release(UID) is None


def test_two_pods_of_one_name_are_two() -> None:
    pods = PodManager()
    pods.put(made())
    pods.put(made(metadata={"uid": "another"}))
    assert [record.ref.uid for record in pods.by_name("default", "web")] == [UID, "another"]
    pods.forget(UID)
    assert [record.ref.uid for record in pods.by_name("default", "web")] == ["another"]


def test_a_pod_is_going_when_it_has_a_deletion_time_or_was_removed() -> None:
    pods = PodManager()
    assert not pods.put(made()).deletion_requested
    assert pods.put(made(metadata={"deletionTimestamp": "2027-01-15T08:00:00Z"})).deletion_requested
    other = pods.put(made(metadata={"uid": "another"}))
    other.deleted = True
    assert other.deletion_requested


def test_a_deletion_that_the_cloud_takes_back_ends_the_pod_in_its_grace_period() -> None:
    """However often the cloud sends the pod without it, and although a new deletion comes."""
    pods = PodManager()
    record = pods.put(made(metadata={"deletionTimestamp": "2027-01-15T08:00:00Z", "deletionGracePeriodSeconds": 60}))
    for _ in range(2):
        pods.put(made())
        assert record.termination_requested
        assert (record.deletion_withdrawn, record.deletion_requested) == (True, False)
        assert grace_seconds(record.terminating_pod) == 60
    pods.put(made(metadata={"deletionTimestamp": "2027-01-15T08:01:00Z", "deletionGracePeriodSeconds": 5}))
    assert (record.deletion_requested, grace_seconds(record.terminating_pod)) == (True, 5)


def test_a_deletion_for_good_may_state_its_grace_period() -> None:
    record = PodManager().put(made(metadata={"deletionGracePeriodSeconds": 60}))
    record.delete()
    assert grace_seconds(record.terminating_pod) == 60
    record.delete(7)
    assert grace_seconds(record.terminating_pod) == 7


def test_older_facts_are_ignored() -> None:
    record = PodManager().put(made())
    runs = pod_facts(record.ref, [box(0, ready=True)], [container("main", 0, RunState.RUNNING)])
    over = pod_facts(record.ref, [box(0, ready=False)], [container("main", 0, RunState.EXITED)])
    seen = [record.observed]
    assert record.observe(runs, 2.0)
    assert [*seen, record.observed] == [False, True]
    assert not record.observe(over, 1.0)
    record.synced(over, 1.0, frozenset())
    assert record.facts == runs
    assert record.observe(over, 2.0)
    assert not record.observe(over, 3.0)
    record.synced(runs, 3.0, frozenset())
    assert (record.facts, record.facts_at) == (runs, 3.0)


def test_how_far_pods_are() -> None:
    """A pod that is ending runs still; one has terminated when its worker says so, or its phase is final."""
    pods = PodManager()
    names = ("new", "ending", "terminated", "final", "gone")
    records = {name: pods.put(made(metadata={"uid": name})) for name in names}
    records["ending"].kill(KillOptions("Evicted", "disk"))
    records["terminated"].kill(KillOptions("Evicted", "disk"))
    records["terminated"].terminate()
    records["final"].set_status(PodStatus(phase="Succeeded"))
    records["gone"].delete()
    records["gone"].end()
    assert [each.metadata.uid for each in pods.active_pods()] == ["new", "final"]
    assert [each.metadata.uid for each in pods.unterminated_pods()] == ["new", "ending"]
    terminated = [name for name in (*names, "unknown") if pods.is_terminated(PodUid(name))]
    assert terminated == ["terminated", "final", "gone", "unknown"]
    assert [name for name, record in records.items() if record.finished] == ["final", "gone"]
    final = records["final"]
    final.observe(pod_facts(final.ref, [box(0, ready=True)], [container("main", 0, RunState.RUNNING)]), 1.0)
    assert not final.finished


def test_what_the_manager_knows_of_a_uid() -> None:
    pods, known, unknown = PodManager(), PodUid("known"), PodUid("unknown")
    record = pods.put(made(metadata={"uid": known}))
    pods.hold(made(), unknown, is_stored=False)
    assert (len(pods), list(pods)) == (1, [record])
    assert [(uid in pods, pods.get(uid), pods.pod(uid), pods.is_held(uid)) for uid in (known, unknown)] == [
        (True, record, record.pod, False),
        (False, None, None, True),
    ]
    assert pods.release(unknown) == (made(), False)


def test_a_held_pod_that_is_newer_than_the_deleted_one_stays() -> None:
    """Also where the deletion names no uid; one of the same moment, or without a time, goes."""
    times = {"old": "2027-01-15T08:00:00Z", "new": "2027-01-15T08:00:01Z"}
    for held, up_to, stays in (("new", "old", True), ("old", "old", False), ("old", "new", False), ("", "old", False)):
        pods = PodManager()
        pods.hold(made(metadata={"creationTimestamp": times.get(held)}))
        pods.drop_held("default", "web", up_to=made(metadata={"creationTimestamp": times[up_to]}))
        assert pods.is_held(UID) is stays


def test_a_deletion_that_is_stored_stays_stored() -> None:
    """The cloud sends it again, and the store cannot take it a second time."""
    record = PodManager().put(made())
    for is_stored, expected in ((False, False), (True, True), (False, True)):
        record.delete(is_stored=is_stored)
        assert record.deletion_stored is expected


def test_the_grace_period_of_a_deletion_replaces_that_of_this_node() -> None:
    pods = PodManager()
    record = pods.put(made())
    record.kill(KillOptions("Evicted", "disk", grace_period=5))
    assert grace_seconds(record.terminating_pod) == 5
    pods.put(made(metadata={"deletionTimestamp": "2027-01-15T08:00:00Z", "deletionGracePeriodSeconds": 60}))
    assert grace_seconds(record.terminating_pod) == 60


def test_containers_that_were_replaced_are_remembered_as_long_as_the_runtime_has_them() -> None:
    record = PodManager().put(made())
    old, new = (container("main", attempt, RunState.EXITED) for attempt in (0, 1))
    record.synced(pod_facts(record.ref, [box(0, ready=True)], [old, new]), 1.0, frozenset({old.id}))
    assert [each.replaced for each in record.facts.containers] == [False, True]
    record.synced(pod_facts(record.ref, [box(0, ready=True)], [new]), 2.0, frozenset())
    assert record.replaced == frozenset()


ENVIRONMENT = {
    "containers": [
        {"name": "a", "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm-key", "key": "k"}}}]},
        {"name": "b", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s-key", "key": "k"}}}]},
    ],
    "initContainers": [
        {"name": "i", "envFrom": [{"configMapRef": {"name": "cm-all"}}, {"secretRef": {"name": "s-all"}}]}
    ],
}
VOLUMES = {
    "volumes": [
        {"name": "a", "configMap": {"name": "cm"}},
        {"name": "b", "secret": {"secretName": "s"}},
        {"name": "c", "emptyDir": {}},
        {"name": "d", "projected": {"sources": [{"configMap": {"name": "cm-p"}}, {"secret": {"name": "s-p"}}]}},
    ]
}


@pytest.mark.parametrize(
    ("spec", "kind", "names"),
    [
        (ENVIRONMENT, "configmap", {"cm-key", "cm-all"}),
        (ENVIRONMENT, "secret", {"s-key", "s-all"}),
        (VOLUMES, "configmap", {"cm", "cm-p"}),
        (VOLUMES, "secret", {"s", "s-p"}),
        ({}, "configmap", set()),
    ],
)
def test_objects_that_a_pod_refers_to(spec: dict[str, object], kind: str, names: set[str]) -> None:
    assert references(made(**spec), kind) == names


def test_pods_are_found_by_their_references_in_their_namespace() -> None:
    pods = PodManager()
    record = pods.put(made(**VOLUMES))
    assert pods.referencing("configmap", "default", "cm") == [record]
    assert pods.referencing("configmap", "other", "cm") == []
    assert pods.referencing("secret", "default", "cm") == []


def container(name: str, attempt: int, state: RunState, sandbox: str = "s0") -> ContainerFacts:
    return ContainerFacts(
        ContainerId(f"{name}{attempt}"),
        SandboxId(sandbox),
        name,
        attempt,
        state,
        attempt,  # type: ignore[arg-type]
    )


def box(attempt: int, *, ready: bool) -> SandboxFacts:
    return SandboxFacts(SandboxId(f"s{attempt}"), attempt, ready, attempt)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("containers", "sandboxes", "gone"),
    [
        ([container("a", 0, RunState.RUNNING)], [box(0, ready=True)], []),
        ([container("a", 1, RunState.RUNNING), container("a", 0, RunState.EXITED)], [box(0, ready=True)], []),
        (
            [container("a", 2, RunState.RUNNING), *(container("a", n, RunState.EXITED) for n in (1, 0))],
            [box(0, ready=True)],
            ["a0"],
        ),
        ([container(n, 0, RunState.EXITED) for n in "ab"], [box(0, ready=False)], []),
        ([container("a", 1, RunState.RUNNING, "s1")], [box(1, ready=True), box(0, ready=False)], ["s0"]),
        (
            [container("a", 1, RunState.RUNNING, "s1"), container("a", 0, RunState.EXITED)],
            [box(1, ready=True), box(0, ready=False)],
            [],
        ),
        ([], [box(1, ready=False), box(0, ready=True)], []),
        ([], [box(0, ready=False)], []),
    ],
    ids=[
        "what runs stays",
        "one end stays",
        "older ends go",
        "one end of each name stays",
        "an empty dead sandbox goes",
        "a dead sandbox with a kept end stays",
        "one that is up is not for pruning",
        "the newest stays",
    ],
)
def test_kept_and_removed_containers(
    containers: list[ContainerFacts], sandboxes: list[SandboxFacts], gone: list[str]
) -> None:
    superfluous = prunable(pod_facts(PodRef(UID, "default", "web"), sandboxes, containers))
    assert [c.id for c in superfluous.containers] + [s.id for s in superfluous.sandboxes] == gone


def test_a_record_is_written_by_its_own_methods_only() -> None:
    """Each field has one writer: the method that its docstring names."""
    fields = set(PodRecord.__struct_fields__)
    for path in Path(manager.__file__).parents[1].rglob("*.py"):
        text = path.read_text()
        tree = ast.parse(text if "record." in text else "")
        targets = [t for node in ast.walk(tree) if isinstance(node, ast.Assign) for t in node.targets]
        parts = [part for t in targets for part in (t.elts if isinstance(t, ast.Tuple) else [t])]
        written = [p for p in parts if isinstance(p, ast.Attribute) and p.attr in fields]
        assert [ast.unparse(p) for p in written if ast.unparse(p.value) in ("record", "self.record")] == []
