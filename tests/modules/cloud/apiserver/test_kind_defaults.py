"""Defaults: an empty value of a field that Go's JSON always has is none, and sources of volumes have theirs."""

from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.workloads import job_labels
from modules.cloud.apiserver.kind_defaults import with_defaults
from modules.cloud.apiserver.workload_defaults import with_job_selector
from tests.modules.apimachinery.validation.test_workloads import workload

_JOB = {"apiVersion": "batch/v1", "kind": "Job"}
_GROUP = "rbac.authorization.k8s.io"


def _complete(kind: str, version: str, **fields: Any) -> JsonObject:
    """An object with its defaults."""
    return with_defaults({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **fields})


@pytest.mark.parametrize("kind", ["RoleBinding", "ClusterRoleBinding"])
@pytest.mark.parametrize("given", [{}, {"apiGroup": ""}])
def test_an_empty_api_group_of_a_role_and_of_users_is_the_default(kind: str, given: JsonObject) -> None:
    subjects = [{"kind": each, "name": "x", **given} for each in ("User", "Group", "ServiceAccount")]
    made = _complete(kind, f"{_GROUP}/v1", roleRef={"kind": "ClusterRole", "name": "r", **given}, subjects=subjects)
    assert made["roleRef"] == {"kind": "ClusterRole", "name": "r", "apiGroup": _GROUP}
    assert [each.get("apiGroup") for each in made["subjects"]] == [_GROUP, _GROUP, None]


@pytest.mark.parametrize("given", [None, 0])
def test_a_zero_of_flow_control_is_the_default(given: int | None) -> None:
    numbers = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
    response = {"type": "Queue", "queuing": dict.fromkeys(numbers, given)}
    spec = {"type": "Limited", "limited": {"limitResponse": response}}
    version = "flowcontrol.apiserver.k8s.io/v1"
    made = _complete("PriorityLevelConfiguration", version, spec=spec)
    assert made["spec"]["limited"]["limitResponse"]["queuing"] == numbers
    made = _complete("FlowSchema", version, spec={"matchingPrecedence": given})
    assert made["spec"]["matchingPrecedence"] == 1000


@pytest.mark.parametrize("given", [{}, {"status": ""}])
def test_an_empty_status_of_a_pods_condition_in_a_policy_is_true(given: JsonObject) -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", **given}]}
    made = workload("Job", podFailurePolicy={"rules": [rule]})
    assert made["spec"]["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"] == "True"


@pytest.mark.parametrize("own", [None, {"app": "x"}, {"a": "b"}])
@pytest.mark.parametrize("of_template", [None, {"app": "x"}])
def test_a_job_without_labels_of_its_own_has_those_of_its_template(
    own: dict[str, str] | None, of_template: dict[str, str] | None
) -> None:
    """With those that the API server makes. One that names its labels keeps them, also if its template has the same
    (recorded of kube-apiserver 1.32 with ingress-nginx's manifests).
    """
    spec = {"template": {"metadata": {"labels": of_template}, "spec": {"containers": []}}}
    made = with_job_selector(with_defaults({**_JOB, "metadata": {"name": "j", "labels": own}, "spec": spec}), "u")
    pods = made["spec"]["template"]["metadata"]["labels"]
    assert pods == {**(of_template or {}), **job_labels("j", "u")}
    assert made["metadata"]["labels"] == (own or pods)


@pytest.mark.parametrize("name", ["serviceAccount", "serviceAccountName"])
def test_a_template_names_its_service_account_twice(name: str) -> None:
    made = workload("Deployment")
    made["spec"]["template"]["spec"][name] = "robot"
    spec = with_defaults(made)["spec"]["template"]["spec"]
    assert (spec["serviceAccount"], spec["serviceAccountName"]) == ("robot", "robot")


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({}, {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
        ({"rollingUpdate": {}}, {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
        ({"type": "RollingUpdate"}, {"type": "RollingUpdate"}),
        ({"type": "OnDelete"}, {"type": "OnDelete"}),
    ],
)
def test_a_stateful_set_that_names_its_strategy_gets_no_partition(given: JsonObject, made: JsonObject) -> None:
    assert workload("StatefulSet", updateStrategy=given)["spec"]["updateStrategy"] == made


@pytest.mark.parametrize("source", [{}, {"kind": "Other", "name": "x", "apiGroup": "example.com"}])
def test_a_source_of_data_that_no_provisioner_has_is_forgotten(source: JsonObject) -> None:
    assert "dataSource" not in _complete("PersistentVolumeClaim", "v1", spec={"dataSource": source})["spec"]


def test_volumes_of_the_network_have_their_defaults_in_pods_and_in_persistent_volumes() -> None:
    source = {"iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2026-01.com.example:disk", "lun": 0}}
    pod = _complete("Pod", "v1", spec={"containers": [], "volumes": [{"name": "v", **source}]})
    volume = _complete("PersistentVolume", "v1", spec=source)
    wanted = {**source["iscsi"], "iscsiInterface": "default"}
    assert pod["spec"]["volumes"][0]["iscsi"] == volume["spec"]["iscsi"] == wanted


@pytest.mark.parametrize(("given", "made"), [({}, "4"), ({"cpu": "3"}, "3")])
def test_what_a_node_has_is_allocatable_unless_it_says_otherwise(given: JsonObject, made: str) -> None:
    status = {"capacity": {"cpu": "4"}, **({"allocatable": given} if given else {})}
    assert _complete("Node", "v1", status=status)["status"]["allocatable"] == {"cpu": made}
