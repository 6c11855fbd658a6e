"""The rules of workloads: what is refused, at which field, and what may change."""

from __future__ import annotations

from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.structural_schema.causes import InvalidFieldsError
from modules.apimachinery.validation.objects import validate_object, validate_update
from modules.cloud.apiserver.kind_defaults import with_defaults

_TEMPLATE: JsonObject = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "i"}]},
}
_NEVER = {**_TEMPLATE, "spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"}}


def workload(kind: str, **spec: Any) -> JsonObject:
    """A workload with these fields."""
    base: JsonObject = {"selector": {"matchLabels": {"app": "web"}}, "template": _TEMPLATE}
    if kind == "Job":
        base = {"template": _NEVER}
    elif kind == "CronJob":
        base = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": _NEVER}}}
    elif kind == "PodDisruptionBudget":
        base = {}
    return with_defaults({"kind": kind, "metadata": {"name": "web"}, "spec": {**base, **spec}})


def causes_of(obj: JsonObject, live: JsonObject | None = None) -> list[tuple[str, str]]:
    """The causes of a refusal, as path and words."""
    try:
        if live is None:
            validate_object(obj)
        else:
            validate_update(obj, live)
    except InvalidFieldsError as error:
        return [(cause["field"], cause["message"]) for cause in error.details["causes"]]
    return []


KINDS = ("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet", "Job", "CronJob", "PodDisruptionBudget")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_right_is_accepted(kind: str) -> None:
    assert causes_of(workload(kind)) == []
    assert causes_of(workload(kind), workload(kind)) == []


@pytest.mark.parametrize(
    ("kind", "spec", "field", "words"),
    [
        ("Deployment", {"selector": None}, "selector", "Required value"),
        ("Deployment", {"selector": {}}, "selector", "empty selector is invalid for deployment"),
        ("Deployment", {"selector": {"matchLabels": {"app": "db"}}}, "template.metadata.labels", "`selector` does not"),
        ("Deployment", {"replicas": -1}, "replicas", "must be greater than or equal to 0"),
        ("Deployment", {"template": _NEVER}, "template.spec.restartPolicy", "Unsupported value"),
        ("Deployment", {"template": {"metadata": _TEMPLATE["metadata"]}}, "template.spec", "Required value"),
        ("Deployment", {"strategy": {"type": "Blue"}}, "strategy.type", "Unsupported value"),
        ("Deployment", {"strategy": {"type": "Recreate", "rollingUpdate": {}}}, "strategy.rollingUpdate", "Forbidden"),
        ("Deployment", {"strategy": {"rollingUpdate": {"maxUnavailable": "150%"}}},
         "strategy.rollingUpdate.maxUnavailable", "must not be greater than 100%"),
        ("Deployment", {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
         "strategy.rollingUpdate.maxUnavailable", "may not be 0 when `maxSurge` is 0"),
        ("Deployment", {"progressDeadlineSeconds": 10, "minReadySeconds": 20}, "progressDeadlineSeconds",
         "must be greater than minReadySeconds"),
        ("DaemonSet", {"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}}, "updateStrategy.rollingUpdate.maxSurge",
         "may not be set when maxUnavailable is non-zero"),
        ("DaemonSet", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}},
         "updateStrategy.rollingUpdate.maxUnavailable", "cannot be 0 when maxSurge is 0"),
        ("ReplicaSet", {"minReadySeconds": -1}, "minReadySeconds", "must be greater than or equal to 0"),
        ("StatefulSet", {"podManagementPolicy": "Wild"}, "podManagementPolicy", "Unsupported value"),
        ("Job", {"template": _TEMPLATE}, "template.spec.restartPolicy", "Unsupported value"),
        ("Job", {"parallelism": -1}, "parallelism", "must be greater than or equal to 0"),
        ("Job", {"parallelism": 1, "completionMode": "Indexed"}, "completions", "when completion mode is Indexed"),
        ("CronJob", {"schedule": "every day"}, "schedule", "expected exactly 5 fields"),
        ("CronJob", {"schedule": "0 0 31 2 *"}, "schedule", "there is no such day"),
        ("CronJob", {"schedule": "TZ=UTC * * * * *"}, "schedule", "use timeZone field instead"),
        ("CronJob", {"timeZone": "Mars/Base"}, "timeZone", "unknown time zone"),
        ("CronJob", {"concurrencyPolicy": "Maybe"}, "concurrencyPolicy", "Unsupported value"),
        ("PodDisruptionBudget", {"minAvailable": 1, "maxUnavailable": 1}, "", "cannot be both set"),
    ],
)  # fmt: skip
def test_each_rule_is_told_at_its_field(kind: str, spec: JsonObject, field: str, words: str) -> None:
    told = causes_of(workload(kind, **spec))
    path = f"spec.{field}" if field else "spec"
    assert [one for one in told if one[0] == path and words in one[1]], told


def test_a_long_name_of_a_cron_job() -> None:
    long = {**workload("CronJob"), "metadata": {"name": "x" * 53}}
    assert causes_of(long)[0][0] == "metadata.name"


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        ("Deployment", {"selector": {"matchLabels": {"app": "web", "tier": "a"}}}, "spec.selector"),
        ("Job", {"completions": 7}, "spec.completions"),
        ("Job", {"template": {**_NEVER, "metadata": {"labels": {"b": "c"}}}}, "spec.template"),
        ("StatefulSet", {"serviceName": "other"}, "spec"),
    ],
)
def test_what_stays(kind: str, change: JsonObject, field: str) -> None:
    assert field in [where for where, _ in causes_of(workload(kind, **change), workload(kind))]


def test_a_suspended_job_that_has_not_begun_may_change_its_template() -> None:
    changed = {**_NEVER, "metadata": {"labels": {"b": "c"}}}
    assert causes_of(workload("Job", suspend=True, template=changed), workload("Job", suspend=True)) == []
