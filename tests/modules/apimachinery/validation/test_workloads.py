"""The rules of workloads: refused fields, and fields that may change."""

from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.invalid_fields import InvalidFieldsError
from modules.apimachinery.validation.objects import validate_object, validate_update
from modules.cloud.apiserver.kind_defaults import with_defaults

_TEMPLATE: JsonObject = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "i"}]},
}
_NEVER = {**_TEMPLATE, "spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"}}


def _pods(**fields: Any) -> JsonObject:
    """A template of pods with these fields."""
    return {**_TEMPLATE, "spec": {**_TEMPLATE["spec"], **fields}}


_ENDING = {"template": _pods(activeDeadlineSeconds=5)}
_DEADLINE = "template.spec.activeDeadlineSeconds"


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
def test_right_objects_are_accepted(kind: str) -> None:
    assert causes_of(workload(kind)) == []
    assert causes_of(workload(kind), workload(kind)) == []


def _with_template(kind: str, **fields: Any) -> JsonObject:
    """A workload whose pods have these fields."""
    ends = kind in ("Job", "CronJob")
    template = _pods(**fields, **({"restartPolicy": "Never"} if ends else {}))
    spec = {"jobTemplate": {"spec": {"template": template}}} if kind == "CronJob" else {"template": template}
    return workload(kind, **spec)


def _container(**fields: Any) -> list[JsonObject]:
    return [{"name": "main", "image": "i", **fields}]


_OF_PODS_ONLY = (
    {"hostNetwork": True, "containers": _container(ports=[{"containerPort": 9100}, {"containerPort": 53}])},
    {"containers": _container(image=" i ")},
    {"initContainers": [{"name": "init", "image": " "}]},
    {"volumes": [{"name": "v", "image": {}}]},
)
"""Templates that leave something to the pods that are made of them."""


@pytest.mark.parametrize("fields", _OF_PODS_ONLY, ids=str)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "PodDisruptionBudget"])
def test_rules_of_pods_are_no_rules_of_templates(kind: str, fields: JsonObject) -> None:
    made = _with_template(kind, **fields)
    assert causes_of(made) == []
    assert causes_of(made, made) == []


def _mounting(*names: str) -> JsonObject:
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
    return {"containers": _container(volumeMounts=mounts)}


_CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


@pytest.mark.parametrize(
    "fields",
    [
        _mounting("data"),
        {**_mounting("data", "tmp"), "volumes": [{"name": "tmp", "emptyDir": {}}]},
        {**_mounting("data"), "volumes": [{"name": "data", "emptyDir": {}, "hostPath": {"path": "/"}}]},
        {"containers": _container(volumeDevices=[{"name": "data", "devicePath": "/dev/x"}])},
        {"hostname": "Not-A-Label", "subdomain": "neither.is.this"},
    ],
)
def test_the_template_of_a_stateful_set_is_checked_as_its_controller_completes_it(fields: JsonObject) -> None:
    """With a volume of each claim, in place of one of its name, and with names of the controller's."""
    assert causes_of(workload("StatefulSet", template=_pods(**fields), volumeClaimTemplates=[_CLAIM])) == []


def test_a_stateful_set_mounts_its_volumes_and_its_claims_only() -> None:
    made = workload("StatefulSet", template=_pods(**_mounting("data", "logs")), volumeClaimTemplates=[_CLAIM])
    where = "spec.template.spec.containers[0].volumeMounts[1].name"
    assert causes_of(made) == [(where, 'Not found: "logs"')]


def test_a_port_of_the_node_in_a_template_is_the_containers() -> None:
    ports = [{"containerPort": 9100, "hostPort": 9101}]
    made = _with_template("DaemonSet", hostNetwork=True, containers=_container(ports=ports))
    why = "Invalid value: 9101: must match `containerPort` when `hostNetwork` is true"
    assert causes_of(made) == [("spec.template.spec.containers[0].ports[0].hostPort", why)]


_PROBE = {"httpGet": {"port": 0}, "timeoutSeconds": -1}


@pytest.mark.parametrize(
    ("kind", "spec", "fields"),
    [
        *(
            (kind, {"selector": None, "template": _pods(containers=[])},
             ["selector", "template.metadata.labels", "template.spec.containers"])
            for kind in ("Deployment", "ReplicaSet")
        ),
        ("DaemonSet", {"selector": {"matchLabels": {"a": "b"}}, "template": _pods(containers=[])},
         ["template.metadata.labels", "template.spec.containers"]),
        ("Deployment", {"template": _pods(containers=[{"name": "a", "image": "a", "livenessProbe": _PROBE}])},
         ["template.spec.containers[0].livenessProbe.httpGet.port",
          "template.spec.containers[0].livenessProbe.timeoutSeconds"]),
    ],
)  # fmt: skip
def test_faults_are_told_in_kubernetes_order(kind: str, spec: JsonObject, fields: list[str]) -> None:
    told = [path.removeprefix("spec.") for path, _ in causes_of(workload(kind, **spec))]
    assert [each for each in told if each in fields] == fields


def test_no_labels_are_no_map() -> None:
    told = dict(causes_of(workload("Deployment", template={"spec": _TEMPLATE["spec"]})))
    words = "Invalid value: map[string]string(nil): `selector` does not match template `labels`"
    assert told["spec.template.metadata.labels"] == words


@pytest.mark.parametrize(
    ("kind", "spec", "field", "words"),
    [
        ("Deployment", {"selector": None}, "selector", "Required value"),
        ("Deployment", {"selector": {}}, "selector", "empty selector is invalid for deployment"),
        ("Deployment", {"selector": {"matchLabels": {"app": "db"}}}, "template.metadata.labels", "`selector` does not"),
        ("Deployment", {"replicas": -1}, "replicas", "must be greater than or equal to 0"),
        ("Deployment", {"template": _NEVER}, "template.spec.restartPolicy", "Unsupported value"),
        ("Deployment", {"template": {"metadata": _TEMPLATE["metadata"]}}, "template.spec.containers", "Required value"),
        ("Deployment", {"strategy": {"type": "Blue"}}, "strategy", "Unsupported value"),
        ("Deployment", {"strategy": {"type": "Recreate", "rollingUpdate": {}}}, "strategy.rollingUpdate", "Forbidden"),
        ("Deployment", {"strategy": {"rollingUpdate": {"maxUnavailable": "150%"}}},
         "strategy.rollingUpdate.maxUnavailable", "must not be greater than 100%"),
        ("Deployment", {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
         "strategy.rollingUpdate.maxUnavailable", "may not be 0 when `maxSurge` is 0"),
        ("Deployment", {"progressDeadlineSeconds": 10, "minReadySeconds": 20}, "progressDeadlineSeconds",
         "must be greater than minReadySeconds"),
        ("DaemonSet", {"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}}, "updateStrategy.rollingUpdate.maxSurge",
         "may not be set when maxUnavailable is non-zero"),
        ("DaemonSet", {"updateStrategy": {"rollingUpdate": {"maxSurge": "101%", "maxUnavailable": 0}}},
         "updateStrategy.rollingUpdate.maxSurge", "must not be greater than 100%"),
        ("DaemonSet", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}},
         "updateStrategy.rollingUpdate.maxUnavailable", "cannot be 0 when maxSurge is 0"),
        ("ReplicaSet", {"minReadySeconds": -1}, "minReadySeconds", "must be greater than or equal to 0"),
        ("Job", {"template": _TEMPLATE}, "template.spec.restartPolicy", "Unsupported value"),
        ("Deployment", {"selector": None}, "template.metadata.labels", "`selector` does not match template `labels`"),
        ("StatefulSet", {"selector": {"matchLabels": {"app": "-"}}}, "selector", "Invalid value: "),
        ("DaemonSet", {"updateStrategy": {"type": "Blue"}}, "updateStrategy", "Unsupported value"),
        ("Deployment", {"template": _pods(ephemeralContainers=[{"name": "e"}])},
         "template.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"),
        ("Deployment", _ENDING, _DEADLINE, "activeDeadlineSeconds in ReplicaSet is not Supported"),
        ("ReplicaSet", _ENDING, _DEADLINE, "activeDeadlineSeconds in ReplicaSet is not Supported"),
        ("DaemonSet", _ENDING, _DEADLINE, "activeDeadlineSeconds in DaemonSet is not Supported"),
        ("StatefulSet", _ENDING, _DEADLINE, "activeDeadlineSeconds in StatefulSet is not Supported"),
        ("Job", {"parallelism": -1}, "parallelism", "must be greater than or equal to 0"),
        ("Job", {"parallelism": 1, "completionMode": "Indexed"}, "completions", "when completion mode is Indexed"),
        ("Deployment", {"strategy": {"rollingUpdate": {"maxSurge": "9" * 5000 + "%"}}},
         "strategy.rollingUpdate.maxSurge", "a valid percent string must be"),
        ("Deployment", {"strategy": {"rollingUpdate": {"maxSurge": "1x%"}}},
         "strategy.rollingUpdate.maxSurge", "a valid percent string must be"),
        ("CronJob", {"schedule": "every day"}, "schedule", "expected exactly 5 fields"),
        ("CronJob", {"schedule": "TZ=UTC * * * * *"}, "schedule", "use timeZone field instead"),
        ("CronJob", {"timeZone": "Mars/Base"}, "timeZone", "unknown time zone"),
        ("CronJob", {"concurrencyPolicy": "Maybe"}, "concurrencyPolicy", "Unsupported value"),
        ("PodDisruptionBudget", {"minAvailable": 1, "maxUnavailable": 1}, "", "cannot be both set"),
    ],
)  # fmt: skip
def test_each_rule_is_reported_at_its_field(kind: str, spec: JsonObject, field: str, words: str) -> None:
    told = causes_of(workload(kind, **spec))
    path = f"spec.{field}" if field else "spec"
    assert [one for one in told if one[0] == path and words in one[1]], told


def test_a_percentage_may_have_one_digit() -> None:
    assert not causes_of(workload("Deployment", strategy={"rollingUpdate": {"maxSurge": "5%"}}))


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


_INDEXED = {"completionMode": "Indexed", "completions": 5}


def _failing(**rule: Any) -> JsonObject:
    return {"podFailurePolicy": {"rules": [rule]}}


def _succeeding(**rule: Any) -> JsonObject:
    return {**_INDEXED, "successPolicy": {"rules": [rule]}}


_CODES = {"operator": "In", "values": [1, 2]}
_CONDITION = {"type": "DisruptionTarget", "status": "True"}


@pytest.mark.parametrize(
    "spec",
    [
        {**_INDEXED, "backoffLimitPerIndex": 1, "maxFailedIndexes": 5},
        _failing(action="Ignore", onPodConditions=[_CONDITION, {"type": "example.com/mine"}]),
        {
            **_failing(action="FailJob", onExitCodes={**_CODES, "containerName": "main"}),
            "podReplacementPolicy": "Failed",
        },
        {**_INDEXED, "backoffLimitPerIndex": 0, **_failing(action="FailIndex", onExitCodes=_CODES)},
        _succeeding(succeededIndexes="0-2,4", succeededCount=4),
        _succeeding(succeededCount=1),
        {"managedBy": "example.com/mine"},
    ],
)
def test_policies_of_a_job_that_are_accepted(spec: JsonObject) -> None:
    assert causes_of(workload("Job", **spec)) == []


_RULE = "podFailurePolicy.rules[0]"
_OF_SUCCESS = "successPolicy.rules[0]"


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"backoffLimitPerIndex": 1}, "backoffLimitPerIndex", "requires indexed completion mode"),
        ({"maxFailedIndexes": 1}, "maxFailedIndexes", "requires indexed completion mode"),
        ({**_INDEXED, "maxFailedIndexes": 1}, "backoffLimitPerIndex", "when maxFailedIndexes is specified"),
        ({**_INDEXED, "backoffLimitPerIndex": -1}, "backoffLimitPerIndex", "must be greater than or equal to 0"),
        ({**_INDEXED, "backoffLimitPerIndex": 1, "maxFailedIndexes": 6}, "maxFailedIndexes", "or equal to completions"),
        ({**_INDEXED, "parallelism": 100_001}, "parallelism", "when completion mode is Indexed"),
        ({**_INDEXED, "completions": 100_001, "backoffLimitPerIndex": 1}, "maxFailedIndexes", "completions is above"),
        ({**_INDEXED, "completions": 200_000, "backoffLimitPerIndex": 1, "maxFailedIndexes": 10_001},
         "maxFailedIndexes", "less than or equal to 10000 when completions are above 100000"),
        (_failing(onExitCodes=_CODES), f"{_RULE}.action", 'valid values: ["Count" "FailIndex"'),
        (_failing(action="Retry", onExitCodes=_CODES), f"{_RULE}.action", "Unsupported value"),
        (_failing(action="FailIndex", onExitCodes=_CODES), f"{_RULE}.action", "requires the backoffLimitPerIndex"),
        (_failing(action="Count"), _RULE, "one of OnExitCodes and OnPodConditions is required"),
        (_failing(action="Count", onExitCodes=_CODES, onPodConditions=[_CONDITION]), _RULE, "specifying both"),
        (_failing(action="Count", onExitCodes={**_CODES, "containerName": "other"}),
         f"{_RULE}.onExitCodes.containerName", "must be one of the container or initContainer names"),
        (_failing(action="Count", onExitCodes={"operator": "In"}), f"{_RULE}.onExitCodes.values", "at least one value"),
        (_failing(action="Count", onExitCodes={"operator": "In", "values": [0]}),
         f"{_RULE}.onExitCodes.values[0]", "must not be 0"),
        (_failing(action="Count", onExitCodes={"operator": "NotIn", "values": [2, 1]}),
         f"{_RULE}.onExitCodes.values", "must be ordered"),
        (_failing(action="Count", onExitCodes={"operator": "NotIn", "values": [1, 1]}),
         f"{_RULE}.onExitCodes.values[1]", "Duplicate value"),
        (_failing(action="Count", onExitCodes={"values": [1]}), f"{_RULE}.onExitCodes.operator", "valid values"),
        (_failing(action="Count", onExitCodes={"operator": "In", "values": list(range(1, 258))}),
         f"{_RULE}.onExitCodes.values", "must have at most 255 items"),
        (_failing(action="Count", onPodConditions=[{"type": "a b"}]),
         f"{_RULE}.onPodConditions[0].type", "name part must consist of"),
        (_failing(action="Count", onPodConditions=[{"type": "A", "status": "Maybe"}]),
         f"{_RULE}.onPodConditions[0].status", "Unsupported value"),
        ({"podFailurePolicy": {"rules": [{"action": "Count", "onExitCodes": _CODES}] * 21}},
         "podFailurePolicy.rules", "must have at most 20 items"),
        ({**_failing(action="Count", onExitCodes=_CODES), "podReplacementPolicy": "TerminatingOrFailed"},
         "podReplacementPolicy", "Unsupported value"),
        ({**_failing(action="Count", onExitCodes=_CODES),
          "template": {**_TEMPLATE, "spec": {**_TEMPLATE["spec"], "restartPolicy": "OnFailure"}}},
         "template.spec.restartPolicy", 'only "Never" is supported'),
        ({"successPolicy": {"rules": [{"succeededCount": 1}]}}, "successPolicy", "requires indexed completion mode"),
        ({**_INDEXED, "successPolicy": {"rules": []}}, "successPolicy.rules", "at least one rules"),
        (_succeeding(), _OF_SUCCESS, "at least one of succeededCount or succeededIndexes"),
        (_succeeding(succeededCount=6), f"{_OF_SUCCESS}.succeededCount", "(the number of specified completions)"),
        (_succeeding(succeededIndexes="0-1", succeededCount=3), f"{_OF_SUCCESS}.succeededCount",
         "(the number of indexes in the specified succeededIndexes field)"),
        (_succeeding(succeededIndexes="5"), f"{_OF_SUCCESS}.succeededIndexes", 'too large index: \"5\"'),
        (_succeeding(succeededIndexes="9" * 5000), f"{_OF_SUCCESS}.succeededIndexes", "cannot convert string"),
        (_succeeding(succeededIndexes="1,1"), f"{_OF_SUCCESS}.succeededIndexes", "previous: 1, current: 1"),
        (_succeeding(succeededIndexes="2-1"), f"{_OF_SUCCESS}.succeededIndexes", "previous: 2, current: 1"),
        (_succeeding(succeededIndexes="0-1-2"), f"{_OF_SUCCESS}.succeededIndexes", "at most two parts"),
        (_succeeding(succeededIndexes="0," * 40_000), f"{_OF_SUCCESS}.succeededIndexes", "Too long"),
        ({"managedBy": "mine"}, "managedBy", "must be a domain-prefixed path"),
        ({"managedBy": f"example.com/{'x' * 60}"}, "managedBy", "Too long"),
    ],
)  # fmt: skip
def test_policies_of_a_job_that_are_refused(spec: JsonObject, field: str, words: str) -> None:
    told = causes_of(workload("Job", **spec))
    assert [one for one in told if one[0] == f"spec.{field}" and words in one[1]], told
    cron = workload("CronJob", schedule="* * * * *", jobTemplate={"spec": {"template": _NEVER, **spec}})
    assert [one for one in causes_of(cron) if one[0] == f"spec.jobTemplate.spec.{field}" and words in one[1]]


_NO_OBJECTS: tuple[Any, ...] = ([], "x", "", 0, False)


@pytest.mark.parametrize("data", ({}, {"kind": "Foo"}))
def test_a_revision_holds_any_json_object(data: JsonObject) -> None:
    assert causes_of({"kind": "ControllerRevision", "metadata": {"name": "r"}, "revision": 1, "data": data}) == []


@pytest.mark.parametrize(
    ("data", "why"),
    [(None, "data is mandatory"), *((data, "data must be a valid JSON object") for data in _NO_OBJECTS)],
)
def test_a_revision_holds_nothing_but_an_object(data: Any, why: str) -> None:
    """As kube-apiserver 1.32.13 answers."""
    refused = {"kind": "ControllerRevision", "metadata": {"name": "r"}, "revision": 1, "data": data}
    assert causes_of(refused) == [("data", f"Required value: {why}")]
