"""Finalizers: an object stays until all of them are removed, as in an API server."""

from functools import partial
from typing import Any

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.api_errors import InvalidError
from modules.apimachinery.graceful_deletion import (
    check_finalizers,
    grace_for_deletion,
    is_deletion_over,
    with_deletion_begun,
)
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.times import format_rfc3339
from modules.cloud.apiserver.api_calls import serve
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.pod_scheduler import Scheduling
from modules.cloud.client.calls import MERGE, ApiCall

_CLAIM: JsonObject = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
POD: JsonObject = {"spec": {"containers": [{"name": "app", "image": "busybox"}]}}


class Api:
    """The verbs on one object with a finalizer."""

    def __init__(self, plural: str, body: JsonObject) -> None:
        self.cluster = Cluster(Simulation(0).clock, Scheduling("n1"))
        self._plural = plural
        self("create", name="", body={**body, "metadata": {"name": "x", "finalizers": ["a.example/clean"]}})

    def __call__(self, verb: str, body: Any = None, name: str = "x", **fields: Any) -> JsonObject:
        call = ApiCall(
            verb=verb, api_version="v1", plural=self._plural, namespace="ns", name=name, body=body,
            patch_type=MERGE if verb == "patch" else "", **fields,
        )  # fmt: skip
        result = serve(self.cluster, call)
        return result.refusal or result.object or {}

    def patch(self, *finalizers: str) -> JsonObject:
        """Set the finalizers."""
        return self("patch", {"metadata": {"finalizers": list(finalizers) or None}})


@pytest.mark.parametrize(
    ("plural", "body"), [("configmaps", {"data": {"a": "1"}}), ("persistentvolumeclaims", {"spec": _CLAIM})]
)
def test_an_object_stays_until_its_last_finalizer_is_gone(plural: str, body: JsonObject) -> None:
    """A deletion only marks it, a second one changes nothing, and the update that takes the finalizer removes it."""
    api = Api(plural, body)
    marked = api("delete")
    assert (marked["kind"], marked["metadata"]["deletionGracePeriodSeconds"]) != ("Status", None)
    assert marked["metadata"]["deletionTimestamp"]
    assert api("delete")["metadata"]["resourceVersion"] == marked["metadata"]["resourceVersion"]
    assert api("get")["metadata"]["finalizers"] == ["a.example/clean"]
    assert api.patch()["metadata"]["name"] == "x"
    assert api("get")["reason"] == "NotFound"


def test_an_object_that_is_being_deleted_gets_no_new_finalizer() -> None:
    """In the words of an API server; what is there may stay."""
    api = Api("configmaps", {})
    api("delete")
    refused = api.patch("a.example/clean", "b.example/more")
    why = 'Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"b.e'
    assert (refused["code"], refused["details"]["causes"][0]["reason"]) == (422, "FieldValueForbidden")
    assert f"metadata.finalizers: {why}" in refused["message"]
    assert api.patch("a.example/clean")["metadata"]["finalizers"] == ["a.example/clean"]


def test_a_pod_goes_when_its_node_and_its_finalizer_have_let_go() -> None:
    """In whatever order: a pod that its node has ended waits for the finalizer, and one without waits for its node."""
    for node_first in (True, False):
        api = Api("pods", POD)
        assert api("delete")["metadata"]["deletionGracePeriodSeconds"] == 30
        ended = partial(api, "delete", options={"gracePeriodSeconds": 0})
        for act in (ended, api.patch) if node_first else (api.patch, ended):
            assert api("get")["kind"] == "Pod"
            act()
        assert api("get")["reason"] == "NotFound"


DAY = 86_400.0


@pytest.mark.parametrize(
    ("marks", "grace", "deadline", "seconds"),
    [
        ({}, 30, DAY + 30, 30),
        ({"deletionTimestamp": "1970-01-02T00:00:20Z", "deletionGracePeriodSeconds": 30}, 30, DAY + 20, 30),
        ({"deletionTimestamp": "1970-01-02T00:00:20Z", "deletionGracePeriodSeconds": 30}, 60, DAY + 20, 30),
        ({"deletionTimestamp": "1970-01-02T00:00:20Z", "deletionGracePeriodSeconds": 30}, 5, DAY - 5, 5),
    ],
)
def test_a_grace_period_is_only_shortened_and_counts_from_its_start(
    marks: JsonObject, grace: int, deadline: float, seconds: int
) -> None:
    pod = {"metadata": {"name": "x", **marks}}
    found = with_deletion_begun(pod, grace, DAY)
    assert found["metadata"]["deletionTimestamp"] == format_rfc3339(deadline)
    assert found["metadata"]["deletionGracePeriodSeconds"] == seconds
    assert (found is pod) is bool(marks and seconds == 30), "it is no change of the object"


@pytest.mark.parametrize(
    ("asked", "spec", "seconds"),
    [
        (None, 7, 7),
        (None, None, 0),
        (0, 7, 0),
        (-1, 7, 1),
        (None, -9, 1),
        (2**62, 7, 3_153_600_000),
        (None, 2**62, 3_153_600_000),
    ],
)
def test_a_grace_period_is_bounded(asked: int | None, spec: int | None, seconds: int) -> None:
    """The end of a longer one could not be written."""
    pod = {"metadata": {"name": "x"}, "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": spec}}
    assert grace_for_deletion(pod, asked) == seconds
    assert with_deletion_begun(pod, grace_for_deletion(pod, asked), DAY)["metadata"]["deletionTimestamp"]


def test_a_finalizer_in_the_place_of_another_is_a_new_one() -> None:
    live: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "x", "deletionTimestamp": "1970-01-02T00:00:00Z", "finalizers": ["a/1", "a/2"],
    }}  # fmt: skip
    with pytest.raises(InvalidError, match="a/3"):
        check_finalizers(live, {**live, "metadata": {**live["metadata"], "finalizers": ["a/3"]}})
    check_finalizers(live, {**live, "metadata": {**live["metadata"], "finalizers": ["a/2"]}})
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"deletionTimestamp": "1970-01-02T00:00:00Z"}}
    assert is_deletion_over(space)
    assert not is_deletion_over({**space, "spec": {"finalizers": ["kubernetes"]}}), "its contents are there"
