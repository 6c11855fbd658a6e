"""The keys of KubeEdge's Applications, and the refusals in them."""

import pytest

from modules.apimachinery.application import (
    Application,
    ListMetadata,
    StatusError,
    Target,
    Verb,
    application,
    key_of,
    target_of,
)

TARGETS = {
    "/core/v1/pods/default/web": Target("", "v1", "pods", "default", "web"),
    "/core/v1/pods/default/null": Target("", "v1", "pods", "default"),
    "/core/v1/nodes/null/n1": Target("", "v1", "nodes", "", "n1"),
    "/apps/v1/deployments/null/null": Target("apps", "v1", "deployments"),
    "/discovery.k8s.io/v1/endpointslices/shop/null": Target("discovery.k8s.io", "v1", "endpointslices", "shop"),
}


@pytest.mark.parametrize("key", TARGETS)
def test_a_key_names_its_target(key: str) -> None:
    assert key_of(TARGETS[key]) == key
    assert target_of(Application(key=key, verb=Verb.GET)) == TARGETS[key]


@pytest.mark.parametrize(
    ("key", "target"),
    [
        ("/core/v1/pods", Target("", "v1", "pods")),
        ("/core/v1/pods/default", Target("", "v1", "pods", "default")),
        ("/core/v1", None),
        ("/core/v1/pods/default/web/status", None),
        ("core/v1/pods/default/web", None),
        ("/core//pods/default/web", None),
        ("//v1/pods/default/web", None),
        ("/core/v1/pods/default/", None),
        ("", None),
    ],
)
def test_a_shorter_key_is_of_an_earlier_kubeedge_and_other_forms_name_nothing(key: str, target: Target | None) -> None:
    assert target_of(Application(key=key, verb=Verb.LIST)) == target


def test_a_request_has_the_subresource_of_its_target() -> None:
    target = Target("", "v1", "pods", "default", "web", "status")
    assert target_of(application(target, Verb.UPDATE_STATUS, "n1", b"{}")) == target


def test_requests_that_differ_have_different_ids() -> None:
    """The same request has the same one, so that the cloud sees that it comes again."""
    pods, nodes = Target("", "v1", "pods"), Target("", "v1", "nodes")
    made = [
        application(pods, Verb.LIST, "n1", b"{}"),
        application(pods, Verb.WATCH, "n1", b"{}"),
        application(nodes, Verb.LIST, "n1", b"{}"),
        application(pods, Verb.LIST, "n2", b"{}"),
        application(pods, Verb.LIST, "n1", b'{"limit":1}'),
        application(pods, Verb.LIST, "n1", b"{}", b"body"),
    ]
    assert len({each.id for each in made}) == len(made)
    assert application(pods, Verb.LIST, "n1", b"{}").id == made[0].id


def test_a_refusal_is_the_status_of_the_error() -> None:
    """Go writes null for no error."""
    status = {"code": 404, "reason": "NotFound"}
    assert Application(key="", verb="", error=StatusError(status)).refusal == status
    assert Application(key="", verb="", error=None).refusal == {}


@pytest.mark.parametrize(
    ("metadata", "is_end"),
    [(ListMetadata(), True), (ListMetadata("token"), False), (ListMetadata("", 3), False), (ListMetadata("", 0), True)],
)
def test_a_list_ends_without_a_token_and_without_remaining_objects(metadata: ListMetadata, *, is_end: bool) -> None:
    assert metadata.is_end is is_end
