"""The part of a fleet that a user sees: each kind of each part is asked for, as a list, where it would be listed."""

from itertools import product

import pytest

from modules.cloud.authorization.rbac.rules import AccessRequest
from modules.page.sight import DEVICE_GROUP, DEVICE_KINDS, DEVICES, NODES, PODS, Sight, UserSight, seen_by

JOBS = tuple(("operations.kubeedge.io", each) for each in ("nodeupgradejobs", "imageprepulljobs", "configupdatejobs"))
WORKLOADS = (*product(("apps",), ("deployments", "replicasets", "statefulsets", "daemonsets")), ("batch", "jobs"))
OF_DEVICES = tuple((DEVICE_GROUP, each) for each in DEVICE_KINDS)
EVERYTHING = (("", NODES), ("", PODS), *OF_DEVICES, *JOBS, *WORKLOADS)


def seen(*refused: tuple[str, str], inside: str = "", most: int = 3) -> UserSight:
    """Return what a user sees who may not list some kinds in the cluster, but lists all in the namespaces `inside`."""

    def refusal(asked: AccessRequest) -> str:
        assert (asked.verb, asked.name, asked.subresource) == ("list", "", "")
        kind = asked.group, asked.resource
        assert kind in EVERYTHING
        is_allowed = kind not in refused or (asked.namespace and asked.namespace in inside)
        return "" if is_allowed else f"no {asked.resource} in {asked.namespace or 'the cluster'}"

    return seen_by(refusal, lambda: "dcba", lambda: "ba", most)


def test_who_may_list_everything_sees_everything() -> None:
    assert seen() == UserSight(Sight(), {})


@pytest.mark.parametrize(("group", "kind"), [*JOBS, *WORKLOADS])
def test_each_kind_of_a_part_is_needed_for_it(group: str, kind: str) -> None:
    sight, forbidden = seen((group, kind))
    assert (sight.has_jobs, sight.has_workloads) == ((group, kind) not in JOBS, (group, kind) not in WORKLOADS)
    assert (sight.is_whole, forbidden) == (True, {})


@pytest.mark.parametrize("kind", OF_DEVICES)
def test_devices_are_seen_where_all_their_kinds_are(kind: tuple[str, str]) -> None:
    sight, forbidden = seen(kind, inside="b")
    assert (sight.devices_in, sight.pods_in) == (frozenset("b"), None)
    assert forbidden == {DEVICES: f"no {kind[1]} in the cluster; shown are those in b"}


def test_pods_are_seen_in_the_first_namespaces_that_let_the_user() -> None:
    sight, forbidden = seen(("", PODS), ("", NODES), inside="bcd")
    assert (sight.has_nodes, sight.pods_in, sight.is_whole) == (False, frozenset("bc"), False)
    assert forbidden[PODS] == "no pods in the cluster; shown are those in b, c; 1 namespaces were not looked at"
    assert not seen(("", PODS)).sight.is_whole
    assert not seen(("", NODES)).sight.is_whole
    assert seen(("", PODS)).sight.pods_in == frozenset()
