"""Looks at Deployments with ReplicaSets of any sizes, without the cloud around them."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from modules.apimachinery.conditions import condition_in as condition
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of
from modules.apimachinery.times import format_rfc3339
from modules.cloud.controllers.conditions import with_condition
from modules.cloud.controllers.deployment import reconcile
from modules.cloud.controllers.deployment_sets import (
    DESIRED,
    HASH,
    MOST,
    REVISION,
    bounds_of,
    new_set,
    revision_of,
    size_annotations,
    wanted,
)
from modules.cloud.controllers.pods import owner_reference
from modules.cloud.controllers.view import View
from tests.modules.cloud.controllers.site import site_of, workload, written_status
from tests.support.presence import present

_COUNTS = st.one_of(st.just(0), st.integers(0, 6))


def test_a_condition_keeps_the_time_of_its_transition() -> None:
    """With another reason it keeps its time; with the same reason it stays as it is."""
    old = {"type": "Ready", "status": "False", "reason": "Lost", "lastTransitionTime": "then", "message": "old"}

    def after(status: str, reason: str) -> tuple[str, str]:
        new = {"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": "now", "message": "new"}
        found = present(condition([{"type": "Other"}, *with_condition([old], new)], "Ready"))
        return found["lastTransitionTime"], found["message"]

    assert after("True", "Lost") == ("now", "new")
    assert after("False", "Broken") == ("then", "new")
    assert after("False", "Lost") == ("then", "old")


def _set_of(
    made: JsonObject, image: str, number: int, replicas: int, available: int, present: int, observed: int = 2
) -> JsonObject:
    """Return a ReplicaSet of a Deployment; its status is about generation `observed`, of two."""
    metadata = {
        "name": f"web-{number}",
        "namespace": "default",
        "uid": f"set-{number}",
        "labels": {"app": "web", HASH: str(number)},
        "resourceVersion": "1",
        "generation": 2,
        "creationTimestamp": format_rfc3339(float(number)),
        "annotations": {
            REVISION: str(number),
            DESIRED: str(wanted(made)),
            MOST: str(wanted(made) + bounds_of(made).surge),
        },
        "ownerReferences": [owner_reference(made)],
    }
    labels = {"app": "web", HASH: str(number)}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}},
    }
    status = {"replicas": present, "availableReplicas": available, "observedGeneration": observed}
    return {"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": metadata, "spec": spec, "status": status}


class Sized(NamedTuple):
    """A ReplicaSet in a test."""

    size: int
    available: int
    desired: int | None = None
    """The Deployment's replicas when the ReplicaSet was written, if they were others."""
    pods: Sequence[str] = ()
    """The phases of its pods."""


def _view_of(
    spec: JsonObject, old: Sequence[Sized], new: Sized | None, status: JsonObject | None = None, **metadata: Any
) -> tuple[View, JsonObject]:
    """Return a view with a Deployment and its ReplicaSets `web-2` and so on; it has four replicas if none are given."""
    made = workload("Deployment", **{"replicas": 4, **spec})
    made["metadata"] |= {"namespace": "default", "uid": "d", "generation": 1, "resourceVersion": "1", **metadata}
    made["status"] = status or {}
    view = View()
    view.put(made)
    for number, one in enumerate([*old, *([new] if new else [])], start=2):
        image = "app:1" if one is new else f"old:{number}"
        stored = _set_of(made, image, number, one.size, one.available, one.size)
        if one.desired is not None:
            stored["metadata"]["annotations"] |= {DESIRED: str(one.desired), MOST: str(one.desired + 1)}
        view.put(stored)
        for place, phase in enumerate(one.pods):
            named = {**stored["metadata"], "name": f"web-{number}-{place}", "uid": f"web-{number}-{place}"}
            named["ownerReferences"] = [owner_reference(stored)]
            view.put({"kind": "Pod", "apiVersion": "v1", "metadata": named, "status": {"phase": phase}})
    return view, made


ROLLING: Final = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}}
SURGING: Final = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}}
RECREATE: Final = {"strategy": {"type": "Recreate"}}


@pytest.mark.parametrize(
    ("spec", "old", "new", "expected"),
    [
        (ROLLING, [], None, {"made": 4}),
        (ROLLING, [Sized(4, 4)], None, {"made": 1}),
        (ROLLING, [Sized(5, 5)], None, {"made": 0}),
        (SURGING, [Sized(1, 1), Sized(2, 2)], None, {"made": 3}),
        (ROLLING, [Sized(4, 4)], Sized(0, 0), {"new": 1}),
        (SURGING, [Sized(1, 1)], Sized(2, 0), {"new": 4}),
        (ROLLING, [Sized(4, 4)], Sized(6, 6), {"new": 4}),
        (ROLLING, [Sized(4, 4)], Sized(1, 0), {"2": 3}),
        (ROLLING, [Sized(3, 3)], Sized(2, 0), {}),
        (ROLLING, [Sized(3, 3)], Sized(2, 1), {"2": 2}),
        (ROLLING, [Sized(1, 1)], Sized(4, 4), {"2": 0}),
        (SURGING, [Sized(4, 4)], Sized(2, 0), {}),
        (ROLLING, [Sized(2, 2), Sized(2, 0)], Sized(1, 0), {"3": 1}),
        (ROLLING, [Sized(2, 0), Sized(3, 0)], Sized(0, 0), {"2": 0}),
        (ROLLING, [Sized(3, 1), Sized(2, 2)], Sized(0, 0), {"2": 1}),
        (ROLLING, [Sized(3, 2), Sized(1, 1)], Sized(1, 1), {"2": 1}),
        (RECREATE, [Sized(2, 2), Sized(1, 0)], None, {"2": 0, "3": 0}),
        (RECREATE, [Sized(0, 0, pods=["Running"])], None, {}),
        (RECREATE, [Sized(0, 0, pods=["Failed", "Pending"])], None, {}),
        (RECREATE, [Sized(0, 0, pods=["Failed", "Succeeded"])], None, {"made": 4}),
        (RECREATE, [Sized(0, 0)], Sized(1, 1), {"new": 4}),
        (ROLLING, [], Sized(2, 2, 2), {"new": 4}),
        (ROLLING, [Sized(2, 2, 2)], None, {"2": 4}),
        (ROLLING, [Sized(2, 2, 2)], Sized(0, 0), {"2": 4}),
        (ROLLING, [Sized(1, 1, 2)], Sized(4, 4), {"2": 0}),
        (ROLLING, [Sized(1, 1, 2)], Sized(4, 3), {}),
        (ROLLING, [Sized(2, 2, 2)], Sized(1, 1, 2), {"2": 3, "new": 2}),
        (ROLLING, [Sized(7, 7, 8)], Sized(2, 2, 8), {"2": 4, "new": 1}),
        (RECREATE, [Sized(2, 2, 2)], Sized(1, 1, 2), {}),
        ({"replicas": 0, **ROLLING}, [Sized(2, 2, 2)], Sized(1, 1, 2), {"2": 0, "new": 0}),
        ({"replicas": 1, **ROLLING}, [Sized(2, 2, 3)], Sized(2, 2, 3), {"2": 1, "new": 1}),
        ({"paused": True, **ROLLING}, [Sized(4, 4)], None, {}),
        ({"paused": True, **ROLLING}, [Sized(4, 4)], Sized(1, 1), {}),
        ({"paused": True, **ROLLING}, [Sized(0, 0)], Sized(0, 0), {"new": 4}),
    ],
)
def test_the_sizes_of_replica_sets_after_one_look(
    spec: JsonObject, old: list[Sized], new: Sized | None, expected: dict[str, int]
) -> None:
    """Of a Deployment with four replicas, if none are given, and old ReplicaSets named 2, 3, and so on; those are named
    that have another size then. A change of the Deployment's replicas is followed before a rollout goes on.
    """
    view, made = _view_of(spec, old, new)
    found: dict[str, int] = {}
    for write in reconcile(view, key_of(made), 1000.0).writes:
        body = write.call.body or {}
        if write.call.verb == "create":
            found["made"] = body["spec"]["replicas"]
        else:
            key = ObjectKey("ReplicaSet", "default", write.call.name)
            before = view.find(key)
            if before is not None and body["spec"]["replicas"] != wanted(before):
                name = "new" if write.call.name == f"web-{len(old) + 2}" else write.call.name.removeprefix("web-")
                found[name] = body["spec"]["replicas"]
    assert found == expected


@pytest.mark.parametrize(
    ("rolling", "available", "is_available"),
    [
        (None, 3, False),
        (None, 4, True),
        ({}, 3, True),
        ({}, 2, False),
        ({"maxSurge": 1, "maxUnavailable": 0}, 3, False),
        ({"maxSurge": "1%", "maxUnavailable": "49%"}, 2, False),
        ({"maxSurge": "1%", "maxUnavailable": "49%"}, 3, True),
        ({"maxSurge": "0%", "maxUnavailable": "24%"}, 3, True),
        ({"maxSurge": "1%", "maxUnavailable": "24%"}, 3, False),
        ({"maxSurge": 0, "maxUnavailable": 9}, 0, True),
    ],
)
def test_a_deployment_is_available_while_no_more_pods_are_missing_than_may_be(
    rolling: JsonObject | None, available: int, is_available: bool
) -> None:
    """Of four; percentages are rounded down here, up for the surge, and if both are nothing one may be missing. With
    the strategy Recreate none may.
    """
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling} if rolling is not None else {"type": "Recreate"}
    view, made = _view_of({"strategy": strategy}, [], Sized(4, available))
    plan = reconcile(view, key_of(made), 1000.0)
    found = condition(written_status(plan)["conditions"], "Available") or {}
    reason = "MinimumReplicasAvailable" if is_available else "MinimumReplicasUnavailable"
    assert (found["status"], found["reason"]) == (str(is_available), reason)


@pytest.mark.parametrize(
    ("sizes", "new", "gone"),
    [
        ([0, 0, 0], Sized(4, 4), ["web-2", "web-3"]),
        ([0], Sized(4, 4), []),
        ([1, 0, 0], Sized(4, 3), ["web-3"]),
        ([0, 0, 0], Sized(2, 2, 2), []),
    ],
)
def test_old_replica_sets_beyond_the_limit_go_during_a_pause_too(sizes: list[int], new: Sized, gone: list[str]) -> None:
    """Not while a change of the size is followed."""
    view, made = _view_of({"paused": True, "revisionHistoryLimit": 1}, [Sized(size, size) for size in sizes], new)
    writes = reconcile(view, key_of(made), 1000.0).writes
    assert [write.call.name for write in writes if write.call.verb == "delete"] == gone


def test_a_status_knows_the_replica_set_that_is_being_made() -> None:
    """Its revision, its pods that are missing, and its name in the words about the progress."""
    status = {"conditions": [{"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}], "replicas": 9}
    view, made = _view_of({**ROLLING, "progressDeadlineSeconds": 60}, [Sized(4, 4)], None, status)
    plan = reconcile(view, key_of(made), 1000.0)
    name, written = present(plan.writes[0].call.body)["metadata"]["name"], written_status(plan)
    assert condition(written["conditions"], "Progressing")["message"] == f'ReplicaSet "{name}" is progressing.'
    assert written["unavailableReplicas"] == 1
    assert present(present(plan.status).call.body)["metadata"]["annotations"][REVISION] == "3"


@pytest.mark.parametrize("spec", [RECREATE, {"paused": True}])
def test_a_rollback_has_its_revision_while_old_pods_end_or_during_a_pause(spec: JsonObject) -> None:
    view, made = _view_of({**spec, "progressDeadlineSeconds": 60}, [Sized(4, 4, pods=["Running"])], Sized(0, 0))
    new = present(view.find(ObjectKey("ReplicaSet", "default", "web-3")))
    new["metadata"]["annotations"][REVISION] = "1"
    plan = reconcile(view, key_of(made), 1000.0)
    changed = [present(one.call.body)["metadata"]["annotations"] for one in plan.writes if one.call.name == "web-3"]
    assert changed[0][REVISION] == "3"


def test_a_deployment_that_is_being_deleted_changes_its_status_only() -> None:
    view, made = _view_of(ROLLING, [Sized(2, 2), Sized(0, 0)], Sized(1, 0), deletionTimestamp=format_rfc3339(900.0))
    plan = reconcile(view, key_of(made), 1000.0)
    assert plan.writes == ()
    status = written_status(plan)
    names = ("replicas", "updatedReplicas", "availableReplicas", "unavailableReplicas")
    assert [status.get(name, 0) for name in names] == [3, 1, 2, 1]


def test_a_deadline_that_is_set_during_a_rollout_is_counted_from_then_on() -> None:
    """Without progress meanwhile, the new ReplicaSet that is found is the beginning (FoundNewReplicaSet)."""
    counts = {"replicas": 5, "updatedReplicas": 1, "availableReplicas": 4, "unavailableReplicas": 1}
    view, made = _view_of({**SURGING, "progressDeadlineSeconds": 600}, [Sized(4, 4)], Sized(1, 0), counts)
    plan = reconcile(view, key_of(made), 1000.0)
    progress = condition(written_status(plan)["conditions"], "Progressing") or {}
    assert (progress["status"], progress["reason"]) == ("True", "FoundNewReplicaSet")
    assert progress["message"] == 'Found new replica set "web-3"'
    assert plan.again_at == 1601.0


@example(
    replicas=8, bounds=(0, 2), old=[(4, 0, True, 2), (4, 0, True, 2)], new=(0, 0), limit=1, is_complete=False
)  # both have more to give than the budget allows
@example(replicas=1, bounds=(1, 0), old=[(0, 0, True, 1)], new=None, limit=0, is_complete=True)
@example(replicas=1, bounds=(1, 0), old=[(0, 0, False, 2)], new=None, limit=0, is_complete=True)  # a pod is there yet
@given(
    replicas=st.integers(1, 8),
    bounds=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    old=st.lists(st.tuples(_COUNTS, _COUNTS, st.booleans(), st.sampled_from([1, 2])), max_size=4),
    new=st.one_of(st.none(), st.tuples(_COUNTS, _COUNTS)),
    limit=st.integers(0, 1),
    is_complete=st.booleans(),
)
def test_a_look_keeps_the_bounds_and_deletes_no_replica_set_that_is_of_use(
    replicas: int,
    bounds: tuple[int, int],
    old: list[tuple[int, int, bool, int]],
    new: tuple[int, int] | None,
    limit: int,
    is_complete: bool,
) -> None:
    """With ReplicaSets of any sizes, of which any pods are available. Pods that are not available do not count:
    those that are left, and can be, are as many as must be available.
    """
    surge, unavailable = bounds
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    made = workload("Deployment", replicas=replicas, strategy=strategy, revisionHistoryLimit=limit)
    made["metadata"] |= {"namespace": "default", "uid": "d", "generation": 1, "resourceVersion": "1"}
    if is_complete:
        names = ("updatedReplicas", "replicas", "readyReplicas", "availableReplicas")
        made["status"] = {"observedGeneration": 1, **dict.fromkeys(names, replicas)}
    sets = [
        _set_of(made, f"app:{number}", number, size, min(available, size), size if exact else int(not size), seen)
        for number, (size, available, exact, seen) in enumerate(old, start=2)
    ]
    size, available = new or (replicas, replicas)
    sets.append(_set_of(made, "app:1", 9, size, min(available, size), size))
    view = View()
    for obj in (made, *sets):
        view.put(obj)
    plan = reconcile(view, key_of(made), 1000.0)
    least = replicas - bounds_of(made).unavailable
    after = {one["metadata"]["name"]: one["spec"]["replicas"] for one in sets}
    changes = [(write.call.name, write.call.body or {}) for write in plan.writes]
    after |= {name: change["spec"]["replicas"] for name, change in changes if "replicas" in change.get("spec", {})}
    up = {one["metadata"]["name"]: one["status"]["availableReplicas"] for one in sets}
    shrunk = [one for one in sets[:-1] if after[one["metadata"]["name"]] < one["spec"]["replicas"]]
    if shrunk:
        assert sum(after[name] for name in after if name != "web-9") + min(after["web-9"], up["web-9"]) >= least
        left = sum(min(after[name], up[name]) for name in after)
        assert left >= min(least, sum(up.values()))
    gone = {write.call.name for write in plan.writes if write.call.verb == "delete"}
    for one in sets:
        is_of_use = one["spec"]["replicas"] or one["status"]["replicas"] or one["status"]["observedGeneration"] < 2
        assert not (one["metadata"]["name"] in gone and is_of_use)
    assert not gone or all(write.call.verb == "delete" for write in plan.writes), "a rollout that goes on may need them"


def test_a_replica_set_that_is_not_its_own_takes_no_name() -> None:
    """One of that name and template but of another Deployment would be awaited without end: another name is taken."""
    site = site_of(workload("Deployment", replicas=1))
    (made,) = site.all("ReplicaSet")
    foreign = {**made["metadata"], "ownerReferences": [{**made["metadata"]["ownerReferences"][0], "uid": "another"}]}
    site.restart()
    view = View()
    view.put({**made, "metadata": foreign})
    owner = site.get("Deployment", "web")
    view.put(owner)
    plan = reconcile(view, key_of(owner), site.clock.now())
    assert written_status(plan).get("collisionCount") == 1


@pytest.mark.parametrize("ages", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_of_replica_sets_with_its_template_a_deployment_rolls_out_the_oldest(ages: tuple[int, ...]) -> None:
    """As Kubernetes' FindNewReplicaSet; each look must find the same one, in whatever order they are stored."""
    made = workload("Deployment")
    sets = [_set_of(made | {"metadata": {"name": "web", "uid": "d"}}, "app:1", age, 1, 1, 1) for age in ages]
    for one, name in zip(sets, "cab", strict=True):
        one["metadata"]["name"] = name
    assert present(new_set(sets, made))["metadata"]["creationTimestamp"] == format_rfc3339(1.0)


@pytest.mark.parametrize(
    ("is_paused", "before", "expected", "is_new"),
    [
        (True, "ReplicaSetUpdated", "DeploymentPaused", True),
        (True, "DeploymentPaused", "DeploymentPaused", False),
        (True, "ProgressDeadlineExceeded", "ProgressDeadlineExceeded", False),
        (False, "DeploymentPaused", "DeploymentResumed", True),
        (False, "DeploymentResumed", "DeploymentResumed", False),
        (False, "ReplicaSetUpdated", "ReplicaSetUpdated", False),
    ],
)
def test_a_pause_and_its_end_are_each_said_once(is_paused: bool, before: str, expected: str, is_new: bool) -> None:
    """As Kubernetes' checkPausedConditions; the seconds until the deadline are counted from then on. Half of the pods
    are not available, and nothing else happens.
    """
    made = workload("Deployment", replicas=4, paused=is_paused, progressDeadlineSeconds=600)
    made["metadata"] |= {"namespace": "default", "uid": "d", "generation": 1, "resourceVersion": "1"}
    view = View()
    view.put(_set_of(made, "app:1", 1, 4, 2, 4))
    view.put(made)
    first = reconcile(view, key_of(made), 1000.0)
    assert first.status is not None
    status = (first.status.call.body or {})["status"]
    progressing = {"type": "Progressing", "status": "Unknown", "reason": before, "message": "m"}
    progressing |= dict.fromkeys(("lastTransitionTime", "lastUpdateTime"), format_rfc3339(1000.0))
    others = [one for one in status["conditions"] if one["type"] != "Progressing"]
    status = {**status, "conditions": [*others, progressing]}
    made = {**made, "metadata": {**made["metadata"], "resourceVersion": "2"}, "status": status}
    view.put(made)
    plan = reconcile(view, key_of(made), 1100.0)
    after = written_status(plan) if plan.status is not None else made["status"]
    (found,) = [one for one in after["conditions"] if one["type"] == "Progressing"]
    assert found["reason"] == expected
    assert found["lastUpdateTime"] == format_rfc3339(1100.0 if is_new else 1000.0)


def test_a_deployment_that_is_recreated_has_no_pods_beyond_its_size() -> None:
    recreated = {"metadata": {}, "spec": {"replicas": 4, **RECREATE}}
    assert set(size_annotations(recreated).values()) == {"4"}


def test_a_replica_set_without_a_revision_is_older_than_the_first() -> None:
    assert revision_of({"metadata": {}}) == 0
