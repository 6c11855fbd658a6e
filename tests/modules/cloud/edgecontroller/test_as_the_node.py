"""Calls of a node's metaserver that the API server of a cluster decides on, and reviews."""

from typing import Any

import msgspec
import pytest

from beehive.testing import Harness
from modules.cloud import api_messages
from modules.cloud.authorization.node_rules import RULES
from modules.cloud.client.calls import DOCUMENT, ApiCall, ApiResult
from modules.cloud.edgecontroller.cluster import as_the_node
from modules.cloud.edgecontroller.module import EdgeController
from tests.modules.cloud.apiextensions.definition import definition, device
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController, code
from tests.modules.cloud.edgecontroller.controller import Controller
from tests.modules.cloud.objects import pod, secret

AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io/v1", "authentication.k8s.io/v1"


def asked(core: Controller, verb: str, api_version: str, plural: str, **fields: Any) -> ApiResult:
    """A request of the metaserver of n1."""
    call = ApiCall(verb=verb, api_version=api_version, plural=plural, node="n1", **fields)
    request = core.bee.message("cloudcore/objects", "call", call, source="dynamiccontroller")
    return core.bee.ask(EdgeController.name, request).content_as(ApiResult)


def review(
    core: Controller, verb: str, resource: str, kind: str = "self", user: str = "", **fields: Any
) -> dict[str, Any]:
    """What a review of the metaserver of n1 says."""
    plural = "selfsubjectaccessreviews" if kind == "self" else "subjectaccessreviews"
    spec = {"resourceAttributes": {"verb": verb, "resource": resource, **fields}} | ({"user": user} if user else {})
    found = asked(core, "create", AUTHORIZATION, plural, body={"spec": spec}).object
    assert found is not None
    return dict(found["status"])


def test_custom_resources_of_a_cluster_are_read_in_the_nodes_name(core: ClusterController) -> None:
    """One, all, and a selection; the cluster's refusals are passed on."""
    core.server.apply(definition(), device("pump"), device("fan"))
    where = {"api_version": "devices.example.io/v1", "plural": "devices", "namespace": "default"}
    found = asked(core, "list", **where)
    assert [one["metadata"]["name"] for one in (found.object or {})["items"]] == ["fan", "pump"]
    found = asked(core, "get", **where, name="pump")
    assert (found.object or {})["metadata"]["name"] == "pump"
    assert core.server.impersonated == ["system:node:n1"] * 2
    assert code(asked(core, "get", **where, name="none")) == 404
    assert code(asked(core, "list", "none.example.io/v1", "nones")) == 404


def test_the_documents_of_discovery_are_read_in_nobodys_name(core: ClusterController) -> None:
    """Every client reads them first, whatever it may do later."""
    core.server.apply(definition())
    found = asked(core, DOCUMENT, "", "", name="apis/devices.example.io/v1").object or {}
    assert [one["kind"] for one in found["resources"]] == ["Device"]
    assert core.server.impersonated == []


def test_a_call_that_another_module_makes_for_a_node_is_checked_as_the_nodes(core: ClusterController) -> None:
    """The same call without a node is an administrator's."""
    core.server.apply(secret(), pod(nodeName="n2", imagePullSecrets=[{"name": "key"}]))
    core.bee.settle()
    call = ApiCall(verb="get", api_version="v1", plural="secrets", namespace="default", name="key")
    for node, expected in (("n1", 403), ("n2", 0), ("", 0)):
        made = core.bee.message(
            "cloudcore/objects", "call", msgspec.structs.replace(call, node=node), source=api_messages.SOURCE
        )
        assert code(core.bee.ask(EdgeController.name, made).content_as(ApiResult)) == expected


@pytest.mark.parametrize("verb", ["create", "update", "patch", "delete", "deletecollection", "updatestatus"])
def test_nothing_but_reads_is_passed_on(core: ClusterController, verb: str) -> None:
    """Whatever RBAC says; neither are subresources."""
    core.server.apply(definition(), device("pump"))
    core.server.requests.clear()
    where = {"api_version": "devices.example.io/v1", "plural": "devices", "namespace": "default", "name": "pump"}
    assert code(asked(core, verb, **where, body=device("pump"))) == 403
    assert code(asked(core, "get", **where, subresource="status")) == 403
    assert (core.server.requests, core.server.impersonated) == ([], [])


def test_no_row_of_the_table_is_the_clusters_to_decide(core: ClusterController) -> None:
    """A cluster that lets nodes read everything lets them read no secret of others."""
    assert code(asked(core, "get", "v1", "secrets", namespace="default", name="bank")) == 403
    assert code(asked(core, "list", "v1", "pods")) == 403
    for group, resource in RULES:
        version = f"{group}/v1" if group else "v1"
        plural, _, subresource = resource.partition("/")
        for verb in ("get", "list"):
            call = ApiCall(verb=verb, api_version=version, plural=plural, subresource=subresource, node="n1")
            assert not as_the_node.is_decided(call)


def test_the_embedded_api_server_has_no_rbac(bee: Harness) -> None:
    core = Controller(bee)
    core.apply(definition())
    assert code(asked(core, "list", "devices.example.io/v1", "devices", namespace="default")) == 403


def test_a_review_agrees_with_the_decision(bee: Harness) -> None:
    """On the embedded API server, by the table; nothing is asked of anybody else."""
    core = Controller(bee)
    core.apply(pod(imagePullSecrets=[{"name": "key"}]))
    secret = {"namespace": "default", "name": "key"}
    assert review(core, "get", "secrets", **secret) == {"allowed": True}
    assert review(core, "get", "secrets", kind="other", user="system:node:n1", **secret) == {"allowed": True}
    refused = review(core, "get", "secrets", **{**secret, "name": "bank"})
    assert (refused["allowed"], "no relationship" in refused["reason"]) == (False, True)
    assert review(core, "update", "nodes", name="n1", subresource="status") == {"allowed": True}
    assert not review(core, "list", "devices", group="devices.example.io")["allowed"]
    assert not review(core, "*", "*")["allowed"]
    assert not review(core, "get", "secrets", kind="other", user="system:node:n2", **secret)["allowed"]


def test_who_the_node_is_and_who_others_are(bee: Harness) -> None:
    """The embedded API server knows no token; members of system:masters may do everything."""
    core = Controller(bee)
    answered = asked(core, "create", AUTHENTICATION, "selfsubjectreviews", body={})
    found = answered.object or {}
    assert answered.created
    assert found["status"]["userInfo"]["username"] == "system:node:n1"
    found = asked(core, "create", AUTHENTICATION, "tokenreviews", body={"spec": {"token": "secret-text"}}).object or {}
    assert found["status"]["authenticated"] is False
    assert "secret-text" not in str(found)
    for groups, allowed in ((["system:masters"], True), (["others"], False), ("system:masters", False)):
        spec = {
            "user": "u",
            "groups": groups,
            "resourceAttributes": {"verb": "get", "resource": "nodes", "subresource": "log"},
        }
        found = asked(core, "create", AUTHORIZATION, "subjectaccessreviews", body={"spec": spec}).object or {}
        assert found["status"]["allowed"] is allowed


@pytest.mark.parametrize("body", [None, 7, [], {"spec": 7}, {"spec": {"resourceAttributes": []}},
                                  {"spec": {"resourceAttributes": {"verb": 1, "resource": {}}}},
                                  {"spec": {"nonResourceAttributes": {"path": "/x", "verb": "get"}}}])  # fmt: skip
def test_a_review_of_any_form_allows_nothing(bee: Harness, body: Any) -> None:
    found = asked(Controller(bee), "create", AUTHORIZATION, "selfsubjectaccessreviews", body=body)
    assert code(found) == 400 or (found.object or {})["status"]["allowed"] is False


def test_paths_that_everybody_reads(bee: Harness) -> None:
    body = {"spec": {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}}
    found = asked(Controller(bee), "create", AUTHORIZATION, "selfsubjectaccessreviews", body=body).object or {}
    assert found["status"] == {"allowed": True}


def test_a_cluster_is_asked_about_others_and_about_resources_without_a_row(core: ClusterController) -> None:
    """In the node's name; what has a row is answered here."""

    def answer(exchange: Any) -> None:
        exchange.answer(201, {**exchange.call.body, "status": {"allowed": True, "authenticated": True}})

    for plural in ("selfsubjectaccessreviews", "subjectaccessreviews", "tokenreviews"):
        core.server.answers[plural] = answer
    assert review(core, "list", "devices", group="devices.example.io")["allowed"]
    assert review(core, "get", "nodes", kind="other", user="kube-apiserver-kubelet-client")["allowed"]
    token = asked(core, "create", AUTHENTICATION, "tokenreviews", body={"spec": {"token": "x"}}).object or {}
    assert token["status"]["authenticated"]
    assert core.server.impersonated == ["system:node:n1"] * 3
    assert not review(core, "get", "secrets", namespace="default", name="bank")["allowed"]
    assert not review(core, "create", "devices", group="devices.example.io")["allowed"]
    assert len(core.server.impersonated) == 3
