"""How far a change got: what nodes and pods say of it, and unknown where they do not."""

import msgspec
import pytest

from modules.cloud.object_writes import ObjectWrite
from modules.insight.fleet.changes import DONE, FAILS, UNKNOWN, WAITS, ChangeReach, ChangeRow, Holders, changes_sentence
from modules.insight.fleet.rows import FleetPodRow

AT = 1_000_000_000.0
BEFORE, AFTER = "2001-09-09T01:46:00Z", "2001-09-09T01:47:00Z"
NONE = Holders()


def change(
    kind: str = "Deployment",
    verb: str = "changed",
    fields: tuple[str, ...] = ("spec.template.spec.containers[web].image: web:1 → web:2",),
    name: str = "web",
    at: float = AT,
) -> ObjectWrite:
    """Return a write."""
    return ObjectWrite(at, "jan", "kubectl", verb, kind, "shop", name, "u", 7, fields=fields)


def pod(
    name: str, node: str, status: str = "Running", created: str = AFTER, owner: str = "Deployment web"
) -> FleetPodRow:
    """Return a pod."""
    is_troubled = status not in ("Running", "Completed")
    return FleetPodRow("shop", name, node, status, "1/1", owner=owner, created=created, is_troubled=is_troubled)


CONFIG = change("ConfigMap", fields=("data.a",))
POD = change("Pod", name="p1", fields=("metadata.labels.a",), at=AT + 20)
SCALED = change(fields=("spec.replicas: 1 → 2",))


@pytest.mark.parametrize(
    ("write", "holders", "pods", "found"),
    [
        (CONFIG, NONE, [], ("", "")),
        (CONFIG, Holders(-1), [], (UNKNOWN, "unknown: cloudcore's database is in memory")),
        (change("Role.rbac.authorization.k8s.io"), Holders(-1), [], ("", "")),
        (CONFIG, Holders(1, 1), [], (DONE, "1 node has it")),
        (CONFIG, Holders(3, 3), [], (DONE, "3 nodes have it")),
        (CONFIG, Holders(3, 1, ("k1", "h1")), [], (WAITS, "1 of 3 nodes has it; not confirmed by k1, h1 (away)")),
        (
            change("ConfigMap", "deleted"), Holders(5, 0, ("k1", "k2", "k3", "k4")), [],
            (WAITS, "5 nodes have not confirmed that it is gone: k1, k2, k3 and others"),
        ),
        (change("Node", "created", name="k1"), Holders(1, 0, ("k1",)), [], ("", "")),
        (POD, NONE, [], ("", "the pod is gone")),
        (POD, NONE, [pod("p1", "")], (WAITS, "waits for a node")),
        (POD, Holders(1), [pod("p1", "k1")], (WAITS, "k1 has not confirmed it")),
        (POD, NONE, [pod("p1", "k1")], (WAITS, "k1 has not confirmed it")),
        (POD, Holders(1, 1), [pod("p1", "k1")], (DONE, "k1 has it: Running")),
        (POD, Holders(1, 1), [pod("p1", "k1", "ImagePullBackOff")], (FAILS, "k1 has it: ImagePullBackOff")),
        (POD, Holders(1, 1), [pod("p1", "h1")], (UNKNOWN, "h1 has it, and is away: the pod's state is unknown")),
        (
            POD, Holders(1), [pod("p1", "h1")],
            (UNKNOWN, "h1 has not confirmed it, and is away: the pod's state is unknown"),
        ),
        (POD, Holders(-1), [pod("p1", "k1", "Pending")], (WAITS, "on k1: Pending")),
        (
            change("Pod", "deleting", name="p1", at=AT + 20), Holders(1, 1), [pod("p1", "k1")],
            (WAITS, "k1 is ending the pod"),
        ),
        (change("Pod", "deleted", name="p1", at=AT + 20), NONE, [], ("", "gone")),
        (change(verb="created"), NONE, [], ("", "it has no pod")),
        (change(), NONE, [pod("a", "k1", created=BEFORE)], (WAITS, "no pod was made since; 1 older pod")),
        (change(), NONE, [pod("a", "k1"), pod("b", "k2")], (DONE, "2 of 2 new pods run on k1, k2")),
        (
            change(at=AT + 0.7), NONE, [pod("a", "k1", created="2001-09-09T01:46:40Z")],
            (DONE, "1 of 1 new pod runs on k1"),
        ),
        (
            change(), NONE,
            [pod("a", "k1"), pod("b", "k2", "ImagePullBackOff"), pod("c", "h1"), pod("d", "k3", "Pending"),
             pod("e", "k1", created=BEFORE)],
            (FAILS, "1 of 4 new pods runs on k1; 1 under way on k3; 1 fails (ImagePullBackOff) on k2; "
                    "1 unknown on h1 (away); 1 older pod"),
        ),
        (SCALED, NONE, [pod("a", "k1", created=BEFORE), pod("b", "")], (DONE, "2 of 2 pods run on k1")),
        (change(verb="deleted"), NONE, [pod("a", "k1")], (WAITS, "1 pod of it is left on k1")),
        (change(verb="deleted"), NONE, [], (DONE, "no pod of it is left")),
        (change("ReplicaSet"), NONE, [pod("a", "k1")], ("", "")),
        (
            change("Job"), NONE, [pod("a", "k1", "Completed", owner="Job web")],
            (DONE, "1 of 1 new pod ran or run on k1"),
        ),
    ],
)  # fmt: skip
def test_how_far_a_change_got(
    write: ObjectWrite, holders: Holders, pods: list[FleetPodRow], found: tuple[str, str]
) -> None:
    assert ChangeReach(pods, {"h1"}).of(write, holders) == found


def test_pods_of_another_namespace_or_owner_do_not_count() -> None:
    others = [msgspec.structs.replace(pod("a", "k1"), namespace="other"), pod("b", "k1", owner="Deployment db")]
    assert ChangeReach([pod("c", "k1"), *others], ()).of(change(), NONE) == (DONE, "1 of 1 new pod runs on k1")


def test_a_pod_on_a_node_that_does_not_exist_waits_for_none_to_confirm() -> None:
    """Its name may be wrong."""
    bound = pod("a", "k9")
    write = change("Pod", name=bound.name, fields=(), at=AT + 20)
    assert ChangeReach([bound], (), {"k1"}).of(write, Holders(1)) == (WAITS, "there is no node k9")
    assert ChangeReach([bound], (), {"k9"}).of(write, Holders(1)) == (WAITS, "k9 has not confirmed it")


def test_a_later_change_of_the_template_takes_the_place_of_earlier_ones() -> None:
    rows = ChangeReach([pod("a", "k1")], ()).rows([(each, NONE) for each in (SCALED, change(), change(verb="created"))])
    assert [each.reached for each in rows] == [
        "1 of 1 pod runs on k1", "1 of 1 new pod runs on k1", "a later change has taken its place",
    ]  # fmt: skip
    assert rows[0].key == "deployment/shop/web"


def test_a_workload_that_was_made_again_takes_the_place_of_changes_of_the_earlier_one() -> None:
    again = [change(verb=verb, fields=()) for verb in ("created", "deleted")]
    rows = ChangeReach([pod("a", "k1")], ()).rows([(each, NONE) for each in (*again, change())])
    assert [each.reached for each in rows] == [
        "1 of 1 new pod runs on k1", "a later change has taken its place", "a later change has taken its place",
    ]  # fmt: skip


AGAIN, ANOTHER = ("", "a pod of this name is there again"), ("", "the pod is gone, and another has its name")


def test_a_pod_that_was_made_again_confirms_no_change_of_its_former() -> None:
    """Its node has what is there now; nobody waits for it to confirm what is gone."""
    verbs = ("changed", "created", "deleted", "deleting", "changed", "created")
    writes = [change("Pod", verb, name="p1", at=AT + 20, fields=("metadata.labels.a",)) for verb in verbs]
    rows = ChangeReach([pod("p1", "k1", created=BEFORE)], ()).rows([(each, Holders(1)) for each in writes])
    waits = (WAITS, "k1 has not confirmed it")
    assert [(row.mark, row.reached) for row in rows] == [waits, waits, AGAIN, AGAIN, ANOTHER, ANOTHER]


@pytest.mark.parametrize(("verb", "found"), [("deleting", AGAIN), ("changed", ANOTHER)])
def test_of_a_list_that_leaves_out_how_a_pod_was_made_again(verb: str, found: tuple[str, str]) -> None:
    """The pod's age tells it, too."""
    assert ChangeReach([pod("p1", "k1", created=AFTER)], ()).of(change("Pod", verb, name="p1"), Holders(1)) == found


def test_the_sentence_counts_undone_steps() -> None:
    def row(mark: str) -> ChangeRow:
        return ChangeRow(AT, "jan", "changed", "Pod", "shop", "p", 1, mark=mark)

    assert changes_sentence([], 0) == "Nothing has changed here in the last seven days."
    assert changes_sentence([row(DONE)], 0) == "1 change in seven days: nothing more is on its way to a node."
    assert changes_sentence([row(FAILS), row(WAITS), row(UNKNOWN)], 4) == (
        "7 changes in seven days; of the newest 3: "
        "1 with pods that fail, 1 on the way, 1 unknown, because a node is away."
    )
