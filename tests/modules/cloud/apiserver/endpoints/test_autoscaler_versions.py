"""HorizontalPodAutoscalers in two versions: the API as clients see it."""

import json
from typing import Any

import pytest

from modules.cloud.client.calls import APPLY, JSON_PATCH, MERGE, STRATEGIC
from tests.modules.cloud.apiserver.endpoints.serving import Serving, Watcher

Json = dict[str, Any]

OLDER, NEWER = (f"/apis/autoscaling/{of}/namespaces/default/horizontalpodautoscalers" for of in ("v1", "v2"))
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
USAGE = "targetCPUUtilizationPercentage"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
BY_MEMORY = {
    "type": "Resource",
    "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
}


def by_cpu(percent: int) -> Json:
    """Return a metric of the newer version."""
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def older(**spec: Any) -> Json:
    """Return an autoscaler of the older version."""
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3, **spec},
    }


def newer(*metrics: Json, **spec: Any) -> Json:
    """Return an autoscaler of the newer version."""
    made = older(metrics=[*metrics], **spec)
    return {**made, "apiVersion": "autoscaling/v2"}


def body(api: Serving, method: str, path: str, *rest: Any, **query: str) -> Json:
    found: Json = json.loads(api.ask(method, path, *rest, **query).body)
    assert found.get("kind") != "Status" or found["status"] == "Success", found
    return found


@pytest.mark.parametrize(("given", "percent"), [({USAGE: 50}, 50), ({}, 80)])
def test_a_usage_of_cpu_is_a_metric(api: Serving, given: Json, percent: int) -> None:
    made = body(api, "POST", OLDER, older(**given))
    assert (made["apiVersion"], made["spec"]) == (
        "autoscaling/v1",
        {"scaleTargetRef": TARGET, "maxReplicas": 3, "minReplicas": 1, USAGE: percent},
    )
    assert made["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    stored = body(api, "GET", f"{NEWER}/web")
    assert (stored["apiVersion"], stored["spec"]["metrics"]) == ("autoscaling/v2", [by_cpu(percent)])


@pytest.mark.parametrize(
    ("method", "media", "change"),
    [
        ("PUT", "application/json", older(maxReplicas=5, **{USAGE: 70})),
        ("PATCH", STRATEGIC, {"spec": {"maxReplicas": 5, USAGE: 70}}),
        ("PATCH", MERGE, {"apiVersion": "autoscaling/v1", "spec": {"maxReplicas": 5, USAGE: 70}}),
        ("PATCH", JSON_PATCH, [
            {"op": "test", "path": f"/spec/{USAGE}", "value": 50},
            {"op": "replace", "path": f"/spec/{USAGE}", "value": 70},
            {"op": "replace", "path": "/spec/maxReplicas", "value": 5},
        ]),
    ],
)  # fmt: skip
def test_what_the_older_version_lacks_stays(api: Serving, method: str, media: str, change: Any) -> None:
    made = body(api, "POST", NEWER, newer(by_cpu(50), BY_MEMORY, behavior={"scaleDown": {"selectPolicy": "Min"}}))
    changed = body(api, method, f"{OLDER}/web", change, media)
    assert changed["spec"].keys() == {"scaleTargetRef", "maxReplicas", "minReplicas", USAGE}
    assert (changed["spec"]["maxReplicas"], changed["spec"][USAGE]) == (5, 70)
    wanted = {**made["spec"], "maxReplicas": 5, "metrics": [BY_MEMORY, by_cpu(70)]}
    assert body(api, "GET", f"{NEWER}/web")["spec"] == wanted


def test_a_usage_that_is_taken_away_leaves_the_other_metrics(api: Serving) -> None:
    body(api, "POST", NEWER, newer(by_cpu(50), BY_MEMORY))
    assert USAGE not in body(api, "PATCH", f"{OLDER}/web", {"spec": {USAGE: None}}, MERGE)["spec"]
    assert body(api, "GET", f"{NEWER}/web")["spec"]["metrics"] == [BY_MEMORY]


def test_each_write_warns_that_nothing_scales(api: Serving) -> None:
    for method, path in (("POST", OLDER), ("PUT", f"{OLDER}/web"), ("PUT", f"{NEWER}/web")):
        given = older() if path.startswith(OLDER) else newer()
        (told,) = (text for name, text in api.ask(method, path, given).headers if name == "Warning")
        assert "nothing here scales by it" in told


def test_labels_are_changed_through_either_version(api: Serving) -> None:
    body(api, "POST", OLDER, older())
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert body(api, "PATCH", f"{OLDER}/web", labels, STRATEGIC)["metadata"]["labels"] == {"a": "b"}
    assert body(api, "GET", f"{NEWER}/web")["metadata"]["labels"] == {"a": "b"}


def test_kubectl_applies_the_older_version(api: Serving) -> None:
    for percent in (50, 60):
        made = body(api, "PATCH", f"{OLDER}/web", older(**{USAGE: percent}), APPLY, fieldManager="kubectl")
        assert made["spec"][USAGE] == percent
    assert body(api, "GET", f"{NEWER}/web")["spec"]["metrics"] == [by_cpu(60)]


def test_a_state_is_reported_through_the_older_version(api: Serving) -> None:
    made = body(api, "POST", OLDER, older())
    status = {"currentReplicas": 2, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 90}
    assert body(api, "PUT", f"{OLDER}/web/status", {**made, "status": status})["status"] == status
    (found,) = body(api, "GET", f"{NEWER}/web")["status"]["currentMetrics"]
    assert found == {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 90}}}


def test_lists_watches_and_tables_are_in_the_version_of_their_path(api: Serving) -> None:
    body(api, "POST", NEWER, newer(by_cpu(50)))
    found = body(api, "GET", OLDER)
    assert (found["apiVersion"], [each["spec"][USAGE] for each in found["items"]]) == ("autoscaling/v1", [50])
    reply = api.reply("GET", OLDER, watch="true", resourceVersion="0")
    (line,) = b"".join(reply.pieces(Watcher())).splitlines()  # type: ignore[union-attr]
    reply.done()  # type: ignore[union-attr]
    assert json.loads(line)["object"]["spec"][USAGE] == 50
    (row,) = json.loads(api.ask("GET", OLDER, accept=TABLE).body)["rows"]
    assert row["cells"][2] == "cpu: <unknown>/50%"
    body(api, "DELETE", OLDER)
    assert body(api, "GET", NEWER)["items"] == []


@pytest.mark.parametrize(
    ("method", "path", "change", "media"),
    [
        ("POST", OLDER, newer(), "application/json"),
        ("PUT", f"{OLDER}/web", newer(), "application/json"),
        ("PATCH", f"{OLDER}/web", {"apiVersion": "autoscaling/v2", "spec": {}}, MERGE),
        ("PATCH", f"{OLDER}/web", [{"op": "replace", "path": "", "value": 1}], JSON_PATCH),
        ("PATCH", f"{OLDER}/web", [], MERGE),
        ("PATCH", f"{OLDER}/web", {"spec": {USAGE: "much"}}, STRATEGIC),
    ],
)
def test_a_body_of_another_version_or_form_is_refused(
    api: Serving, method: str, path: str, change: Any, media: str
) -> None:
    body(api, "POST", NEWER, newer(by_cpu(50)))
    assert api.ask(method, path, change, media).status in (400, 422)
    assert body(api, "GET", f"{NEWER}/web")["spec"]["metrics"] == [by_cpu(50)]


def test_discovery_prefers_the_newer_version(api: Serving) -> None:
    group = body(api, "GET", "/apis/autoscaling")
    assert [each["version"] for each in group["versions"]] == ["v2", "v1"]
    assert group["preferredVersion"]["version"] == "v2"
    for of in ("v1", "v2"):
        found = {each["name"]: each for each in body(api, "GET", f"/apis/autoscaling/{of}")["resources"]}
        assert found.keys() == {"horizontalpodautoscalers", "horizontalpodautoscalers/status"}
        assert (found["horizontalpodautoscalers"]["shortNames"], found["horizontalpodautoscalers"]["categories"]) == (
            ["hpa"], ["all"],
        )  # fmt: skip
        schemas = body(api, "GET", f"/openapi/v3/apis/autoscaling/{of}")["components"]["schemas"]
        spec = schemas[f"io.k8s.api.{of}.HorizontalPodAutoscalerSpec"]["properties"]
        assert (USAGE in spec, "metrics" in spec) == (of == "v1", of == "v2")
