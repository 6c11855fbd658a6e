"""A cloudcore's Lease: its own fields, and the fields that it reads of others'."""

from typing import Any

import pytest

from modules.cloud.coordination.known_cloudcores import Duty
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.coordination.leases import lease_name, lease_of, observed
from tests.support.presence import present

SETTINGS = LeaseSettings()


def test_a_new_lease_has_all_that_others_need() -> None:
    """Kubernetes' fields, in its forms: renewTime is a MicroTime."""
    assert lease_of(SETTINGS, "Host_1-ab", 1.5, None) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "host-1-ab",
            "namespace": "kubeedge",
            "labels": {"app.kubernetes.io/name": "cloudcore"},
            "annotations": {"edgecore.io/duties": "controllers,devices,jobs"},
        },
        "spec": {
            "holderIdentity": "Host_1-ab",
            "leaseDurationSeconds": 30,
            "acquireTime": "1970-01-01T00:00:01.500000Z",
            "renewTime": "1970-01-01T00:00:01.500000Z",
            "leaseTransitions": 0,
        },
    }


def test_a_renewal_keeps_what_others_have_written() -> None:
    live = lease_of(SETTINGS, "a", 1.0, None)
    live["metadata"]["resourceVersion"] = "7"
    live["metadata"]["annotations"]["of"] = "others"
    live["metadata"]["labels"]["of"] = "others"
    renewed = lease_of(SETTINGS, "a", 2.0, live)
    assert renewed["metadata"] == live["metadata"]
    assert renewed["spec"]["acquireTime"] == live["spec"]["acquireTime"]
    assert renewed["spec"]["renewTime"] == "1970-01-01T00:00:02.000000Z"
    assert renewed["spec"]["leaseTransitions"] == 0


def test_it_has_the_address_of_the_router_as_long_as_there_is_one() -> None:
    """In an annotation, beside other annotations; a too long one does not count."""
    live = lease_of(SETTINGS, "a", 1.0, None, "10.0.0.1:9443")
    assert live["metadata"]["annotations"]["edgecore.io/router"] == "10.0.0.1:9443"
    found = present(observed(live))
    assert found.router == "10.0.0.1:9443"
    live["metadata"]["annotations"]["of"] = "others"
    assert sorted(lease_of(SETTINGS, "a", 2.0, live)["metadata"]["annotations"]) == ["edgecore.io/duties", "of"]
    for given, router in (("x" * 253, "x" * 253), ("x" * 254, ""), (7, ""), (None, "")):
        found = present(observed({**live, "metadata": {"name": "a", "annotations": {"edgecore.io/router": given}}}))
        assert found.router == router


@pytest.mark.parametrize(
    ("said", "does"),
    [
        ("", set()),
        ("jobs", {Duty.JOBS}),
        ("controllers,of another release", {Duty.CONTROLLERS}),
        (None, set(Duty)),
        (7, set(Duty)),
        ("," * 254, set(Duty)),
    ],
)
def test_it_has_what_its_cloudcore_does(said: object, does: set[Duty]) -> None:
    """One of a former release says nothing of that, and may do all."""
    live = lease_of(SETTINGS, "a", 1.0, None, duties=frozenset({Duty.JOBS}))
    assert live["metadata"]["annotations"] == {"edgecore.io/duties": "jobs"}
    live["metadata"]["annotations"] = {"edgecore.io/duties": said}
    assert present(observed(live)).duties == does
    assert present(observed(lease_of(SETTINGS, "a", 2.0, live, duties=frozenset()))).duties == set()


def test_another_holder_counts_as_a_transition() -> None:
    """With a configured name, a new process takes over the Lease of the former one."""
    taken = lease_of(SETTINGS, "b", 2.0, lease_of(SETTINGS, "a", 1.0, None))
    assert (taken["spec"]["holderIdentity"], taken["spec"]["leaseTransitions"]) == ("b", 1)
    assert taken["spec"]["acquireTime"] == taken["spec"]["renewTime"]


def test_a_name_is_the_configured_one_or_a_dns_subdomain() -> None:
    assert lease_name(LeaseSettings(name="cloud-a"), "whatever") == "cloud-a"
    assert lease_name(SETTINGS, "-Ünder_score.Example-1") == "nder-score-example-1"
    assert len(lease_name(SETTINGS, "x" * 300)) == 253
    assert lease_name(SETTINGS, "a-" + "x" * 252) == "x" * 252


def test_renewals_differ() -> None:
    first, second = (observed(lease_of(SETTINGS, "a" * 253, now, None)) for now in (1.0, 2.0))
    assert first is not None
    assert second is not None
    assert first.renewal != second.renewal


@pytest.mark.parametrize(
    "change",
    [
        {"spec": None},
        {"metadata": "x"},
        {"spec": {"holderIdentity": "", "leaseDurationSeconds": 30}},
        {"spec": {"holderIdentity": "a" * 254, "leaseDurationSeconds": 30}},
        {"spec": {"holderIdentity": "a", "leaseDurationSeconds": "30"}},
        {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 0}},
    ],
)
def test_a_lease_that_nobody_holds_or_that_is_wrong_does_not_count(change: dict[str, Any]) -> None:
    assert observed({**lease_of(SETTINGS, "a", 1.0, None), **change}) is None


def test_no_lease_lasts_longer_than_five_minutes() -> None:
    """Or a dead cloudcore would have its duties for as long as it once said."""
    assert present(observed(lease_of(LeaseSettings(duration=10**9), "a", 1.0, None))).duration == 300.0
