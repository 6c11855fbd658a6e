"""`scale`, `set image` and `rollout` against a real cloudcore."""

import time
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from modules.cli.rest import RestClient
from modules.kubectl.resources import ref
from modules.kubectl.rollout import revisions_of
from tests.modules.kubectl.cloud import Cloud

PATH = "/apis/apps/v1/namespaces/default/deployments/web"

JsonObject = dict[str, Any]


def deployment(replicas: int = 1) -> JsonObject:
    labels = {"app": "web"}
    containers = [{"name": name, "image": f"{name}:3"} for name in ("main", "log")]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def test_a_workload_is_scaled_if_it_has_the_number_that_is_said(cloud: Cloud) -> None:
    cloud.make(deployment(3))
    refused = cloud.run("scale", "deployment/web", "--replicas=2", "--current-replicas=1")
    assert (refused.status, refused.err) == (1, "error: Expected replicas to be 1, was 3\n")
    assert cloud.run("scale", "deployment/web", "--replicas=2", "--dry-run=server").status == 0
    assert cloud.client.get(PATH)["spec"]["replicas"] == 3
    assert cloud.run("scale", "deployment/web", "--replicas=2", "--current-replicas=3").out.endswith("web scaled\n")
    assert cloud.client.get(PATH)["spec"]["replicas"] == 2


def test_a_second_restart_in_one_second_is_refused(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would change nothing: the annotation that restarts the pods has whole seconds. kubectl refuses it, too."""
    cloud.make(deployment())
    said = []
    for seconds in (0.0, 0.0, 1.0):
        now = partial(time.gmtime, seconds)
        monkeypatch.setattr("modules.kubectl.rollout.time", Mock(strftime=time.strftime, gmtime=now))
        said.append(cloud.run("rollout", "restart", "deployment/web"))
    assert [done.status for done in said] == [0, 1, 0]
    assert "deployment.apps/web was restarted within this second" in said[1].err


def test_a_workload_without_pods_is_scaled_from_0(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """kube-apiserver leaves a 0 out of a Scale."""
    cloud.make(deployment(0))
    get = RestClient.get

    def in_go(self: RestClient, path: str, query: Any = ()) -> JsonObject:
        found = get(self, path, query)
        return found | {"spec": {}} if found.get("kind") == "Scale" else found

    monkeypatch.setattr(RestClient, "get", in_go)
    assert cloud.run("scale", "deployment/web", "--replicas=2", "--current-replicas=0").status == 0
    assert cloud.run("scale", "deployment/web", "--replicas=1", "--current-replicas=5").status == 1


def test_revisions_with_one_number_are_in_some_order(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of ReplicaSets that no controller has numbered yet."""
    where = ref(cloud.session, cloud.session.discovery.one("deployments"), "web")
    resource = cloud.session.discovery.one("replicasets")
    metadata = {"ownerReferences": [{"uid": "u"}]}
    sets = [{"metadata": metadata, "spec": {"template": {"at": at}}} for at in (1, 2)]
    monkeypatch.setattr(cloud.session.client, "get", lambda *_: {"kind": resource.kind, "items": sets})
    found = revisions_of(cloud.session, where, {"metadata": {"uid": "u"}})
    assert [(one.number, one.template["at"]) for one in found] == [(0, 1), (0, 2)]
