"""The rules of workloads: kinds of the API groups apps, batch and policy (Kubernetes 1.32)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from beehive.whole_numbers import whole_number
from modules.apimachinery.cron_schedule import parse_schedule, zone_named
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.causes import (
    Cause,
    Causes,
    contradictory,
    forbidden,
    invalid,
    required,
    shown,
    unsupported,
)
from modules.apimachinery.validation.jobs import POLICY_FIELDS, job_policies
from modules.apimachinery.validation.labels import label_selector, labels
from modules.apimachinery.validation.metadata import IMMUTABLE, immutable, template_metadata
from modules.apimachinery.validation.pod_spec import pod_spec
from modules.apimachinery.validation.rules import (
    Fields,
    Row,
    Rule,
    anything,
    needed,
    non_negative,
    one_of,
    or_zero,
    pointer,
)
from modules.apimachinery.workload_selectors import matcher_of

_LONGEST_CRON_JOB: Final = 52
_TELLING: Final = ("deployment", "replicaset")
"""The kinds that tell a selector with faults as a whole, too."""
_TELLING_WITHOUT_WORDS: Final = "statefulset"


def _no_ephemeral(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check that pods do not begin with ephemeral containers."""
    if (value.get("spec") or {}).get("ephemeralContainers"):
        found.append(forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))


_TEMPLATE: Final = Fields({"metadata": template_metadata, "spec": or_zero(pod_spec, {})}, _no_ephemeral)


_OF_CONTROLLER: Final = frozenset(("hostname", "subdomain"))


def _template_of_set(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check the template of a StatefulSet as its controller completes it: with a volume for each claim, and host names
    of its own. Kubernetes does so since 1.34 (`ValidateStatefulSetSpec`); before, it looked at no such spec.
    """
    claims = {
        name: {"name": name, "persistentVolumeClaim": {"claimName": name}}
        for claim in value.get("volumeClaimTemplates") or ()
        if (name := (claim.get("metadata") or {}).get("name"))
    }
    template = value.get("template") or {}
    spec = {name: member for name, member in (template.get("spec") or {}).items() if name not in _OF_CONTROLLER}
    volumes = [claims.pop(each.get("name"), each) for each in spec.get("volumes") or ()]
    completed = {**template, "spec": {**spec, "volumes": [*volumes, *claims.values()]}}
    _TEMPLATE(completed, f"{path}.template", found)


def _number_or_percent(value: Any, path: str, found: Causes) -> None:
    """Check a number of pods, or a percentage of them."""
    if isinstance(value, str):
        if not value.endswith("%") or whole_number(value[:-1]) is None:
            why = "a valid percent string must be a numeric string followed by an ending '%'"
            found.append(invalid(path, value, f"{why} (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"))
    else:
        non_negative(value, path, found)


def _at_most_all(value: Any, path: str, found: Causes) -> None:
    _number_or_percent(value, path, found)
    if isinstance(value, str) and (whole_number(value[:-1]) or 0) > 100:
        found.append(invalid(path, value, "must not be greater than 100%"))


def _is_none(value: Any) -> bool:
    return value in (None, 0, "0%")


def _is_some(value: Any) -> bool:
    """Return whether a value is a number of pods above 0, or such a percentage; a text that is neither counts none."""
    number = whole_number(value.removesuffix("%")) if isinstance(value, str) and value.endswith("%") else value
    return isinstance(number, int) and number > 0


def _selector_of(kind: str) -> Rule:
    """Return the rule that a selector matches the template."""

    def rule(value: Mapping[str, Any], path: str, found: Causes) -> None:
        selector, faults = value.get("selector") or {}, Causes()
        label_selector(selector, path, faults)
        if value.get("selector") is not None and not any(map(selector.get, ("matchLabels", "matchExpressions"))):
            found.append(invalid(f"{path}.selector", selector, f"empty selector is invalid for {kind}"))
            return
        if faults:
            if kind in _TELLING or kind == _TELLING_WITHOUT_WORDS:
                why = "invalid label selector" if kind in _TELLING else ""
                found.append(invalid(f"{path}.selector", selector, why))
            return
        _matches_template(value, path, found)

    return rule


def _matches_template(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check that a selector matches the labels of the template; none matches nothing."""
    selector, labels = value.get("selector"), ((value.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if not selector or not matcher_of(selector)(labels):
        found.append(_unmatched(f"{path}.template.metadata.labels", labels))


def _unmatched(path: str, of_pods: Mapping[str, Any]) -> Cause:
    """Return the cause for labels of pods that a selector does not match."""
    why = "`selector` does not match template `labels`"
    return invalid(path, of_pods, why) if of_pods else contradictory(path, f"map[string]string(nil): {why}")


def _restarts(*policies: str) -> Rule:
    """Return the rule that the template's pods have one of some restart policies."""

    def rule(value: Mapping[str, Any], path: str, found: Causes) -> None:
        policy = ((value.get("template") or {}).get("spec") or {}).get("restartPolicy")
        where = f"{path}.template.spec.restartPolicy"
        if not policy and len(policies) > 1:
            found.append(required(where, f"valid values: {', '.join(map(shown, policies))}"))
        elif policy and policy not in policies:
            found.append(unsupported(where, policy, list(policies)))

    return rule


def _without_deadline(kind: str) -> Rule:
    """Return the rule that the template's pods have no deadline: the kind would replace them for ever."""

    def rule(value: Mapping[str, Any], path: str, found: Causes) -> None:
        if ((value.get("template") or {}).get("spec") or {}).get("activeDeadlineSeconds") is not None:
            why = f"activeDeadlineSeconds in {kind} is not Supported"
            found.append(forbidden(f"{path}.template.spec.activeDeadlineSeconds", why))

    return rule


def _of_deployment(value: Mapping[str, Any], path: str, found: Causes) -> None:
    rolling, kinds = value.get("rollingUpdate"), ("Recreate", "RollingUpdate")
    if value.get("type") not in kinds:
        found.append(unsupported(path, dict(value), kinds))
    elif value.get("type") == "Recreate" and rolling is not None:
        found.append(forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'"))
    elif rolling and _is_none(rolling.get("maxSurge")) and _is_none(rolling.get("maxUnavailable")):
        why = "may not be 0 when `maxSurge` is 0"
        found.append(invalid(f"{path}.rollingUpdate.maxUnavailable", rolling.get("maxUnavailable"), why))


def _of_daemon_set(value: Mapping[str, Any], path: str, found: Causes) -> None:
    rolling, kinds = value.get("rollingUpdate") or {}, ("RollingUpdate", "OnDelete")
    if value.get("type") not in kinds:
        found.append(unsupported(path, dict(value), kinds))
    if value.get("type") != "RollingUpdate" or not rolling:
        return
    surges, lacks = (_is_some(rolling.get(name)) for name in ("maxSurge", "maxUnavailable"))
    if surges and lacks:
        why = "may not be set when maxUnavailable is non-zero"
        found.append(invalid(f"{path}.rollingUpdate.maxSurge", rolling.get("maxSurge"), why))
    elif not surges and not lacks:
        found.append(required(f"{path}.rollingUpdate.maxUnavailable", "cannot be 0 when maxSurge is 0"))


def _deadline(value: Mapping[str, Any], path: str, found: Causes) -> None:
    seconds = value.get("progressDeadlineSeconds")
    if isinstance(seconds, int) and seconds <= int(value.get("minReadySeconds") or 0):
        found.append(invalid(f"{path}.progressDeadlineSeconds", seconds, "must be greater than minReadySeconds"))


_ROLLING: Final = Fields({"maxUnavailable": pointer(_at_most_all), "maxSurge": pointer(_number_or_percent)})
_ROLLING_ON_NODES: Final = Fields({"maxUnavailable": pointer(_at_most_all), "maxSurge": pointer(_at_most_all)})
_ALWAYS: Final = _restarts("Always")
_NUMBERS: Final[dict[str, Rule | Row]] = {"replicas": pointer(non_negative), "minReadySeconds": non_negative}
_SELECTOR: Final = needed(label_selector)
_OF_PODS: Final = Fields({"template": or_zero(_TEMPLATE, {})})
_HISTORY: Final[dict[str, Rule | Row]] = {"revisionHistoryLimit": pointer(non_negative)}
_OF_REPLICA_SET: Final = (_OF_PODS, _ALWAYS, _without_deadline("ReplicaSet"))

deployment = Fields(
    {
        "spec": needed(
            Fields(
                {**_NUMBERS, "selector": _SELECTOR},
                _selector_of("deployment"),
                *_OF_REPLICA_SET,
                Fields(
                    {
                        **_HISTORY,
                        "strategy": Fields({"rollingUpdate": _ROLLING}, _of_deployment),
                        "progressDeadlineSeconds": pointer(non_negative),
                    }
                ),
                _deadline,
            )
        )
    }
)
replica_set = Fields(
    {"spec": needed(Fields({**_NUMBERS, "selector": _SELECTOR}, _selector_of("replicaset"), *_OF_REPLICA_SET))}
)


def _of_controller(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check that the selector of a ReplicationController, a table of labels, matches its template."""
    selector = value.get("selector") or {}
    of_template = ((value.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if any(of_template.get(name) != text for name, text in selector.items()):
        found.append(_unmatched(f"{path}.template.metadata.labels", of_template))


replication_controller = Fields(
    {
        "spec": needed(
            Fields(
                {
                    "minReadySeconds": non_negative,
                    "selector": needed(labels),
                    "replicas": pointer(non_negative),
                    "template": needed(_TEMPLATE),
                },
                _of_controller,
                _ALWAYS,
                _without_deadline("ReplicationController"),
            )
        )
    }
)
pod_template = Fields({"template": or_zero(_TEMPLATE, {})})


def _json_object(value: Any, path: str, found: Causes) -> None:
    if not isinstance(value, dict):
        found.append(required(path, "data must be a valid JSON object"))


controller_revision = Fields({"data": needed(pointer(_json_object), "data is mandatory"), "revision": non_negative})
daemon_set = Fields(
    {
        "spec": needed(
            Fields(
                {"selector": label_selector},
                _selector_of("daemonset"),
                _OF_PODS,
                _ALWAYS,
                _without_deadline("DaemonSet"),
                Fields(
                    {
                        "minReadySeconds": non_negative,
                        "updateStrategy": Fields({"rollingUpdate": _ROLLING_ON_NODES}, _of_daemon_set),
                        **_HISTORY,
                    }
                ),
            )
        )
    }
)


def _of_stateful_set(value: Mapping[str, Any], path: str, found: Causes) -> None:
    strategy = value.get("updateStrategy") or {}
    rolling, kind = strategy.get("rollingUpdate"), strategy.get("type")
    if kind not in ("RollingUpdate", "OnDelete"):
        found.append(invalid(f"{path}.updateStrategy", strategy, "must be 'RollingUpdate' or 'OnDelete'"))
    if kind == "OnDelete" and rolling is not None:
        why = "only allowed for updateStrategy 'RollingUpdate'"
        found.append(invalid(f"{path}.updateStrategy.rollingUpdate", rolling, why))


def _management(value: Any, path: str, found: Causes) -> None:
    if not value:
        found.append(required(path))
    elif value not in ("OrderedReady", "Parallel"):
        found.append(invalid(path, value, "must be 'OrderedReady' or 'Parallel'"))


_RETENTION: Final = one_of("Retain", "Delete")
stateful_set = Fields(
    {
        "spec": needed(
            Fields(
                {
                    **_NUMBERS,
                    "selector": _SELECTOR,
                    "template": anything,
                    **_HISTORY,
                    "podManagementPolicy": or_zero(_management, ""),
                    "updateStrategy": Fields({"rollingUpdate": Fields({"partition": pointer(non_negative)})}),
                    "ordinals": Fields({"start": non_negative}),
                    "persistentVolumeClaimRetentionPolicy": Fields(
                        {"whenDeleted": or_zero(_RETENTION, ""), "whenScaled": or_zero(_RETENTION, "")}
                    ),
                },
                _selector_of("statefulset"),
                _template_of_set,
                _of_stateful_set,
                _ALWAYS,
                _without_deadline("StatefulSet"),
            )
        )
    }
)


_JOB_SPEC: Final = Fields(
    {
        "parallelism": pointer(non_negative),
        "completions": pointer(non_negative),
        "activeDeadlineSeconds": pointer(non_negative),
        "backoffLimit": pointer(non_negative),
        "ttlSecondsAfterFinished": pointer(non_negative),
        **POLICY_FIELDS,
        "completionMode": pointer(one_of("NonIndexed", "Indexed")),
        "podReplacementPolicy": pointer(one_of("Failed", "TerminatingOrFailed")),
        "template": or_zero(_TEMPLATE, {}),
    },
    job_policies,
    _restarts("OnFailure", "Never"),
)
job = Fields({"spec": or_zero(Fields({"selector": label_selector}, _JOB_SPEC), {})})


def _generated_selector(value: Mapping[str, Any], path: str, found: Causes) -> None:
    if value.get("manualSelector"):
        found.append(unsupported(f"{path}.manualSelector", value["manualSelector"], ["nil", "false"]))
    if value.get("selector") is not None:
        found.append(invalid(f"{path}.selector", value["selector"], "`selector` will be auto-generated"))


def _schedule(value: Any, path: str, found: Causes) -> None:
    if "TZ" in value:
        found.append(invalid(path, value, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
        return
    try:
        parse_schedule(value)
    except ValueError as error:
        found.append(invalid(path, value, str(error)))


def _zone(value: Any, path: str, found: Causes) -> None:
    if not value:
        found.append(invalid(path, value, "timeZone must be nil or non-empty string"))
        return
    if value.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        found.append(invalid(path, value, why))
    try:
        zone_named(value)
    except ValueError as error:
        found.append(invalid(path, value, str(error)))


def cron_job_creation(obj: JsonObject, found: Causes) -> None:
    """Check the length of a new CronJob's name: its Jobs append eleven characters."""
    name = str(obj["metadata"].get("name") or "")
    if len(name) > _LONGEST_CRON_JOB:
        found.append(invalid("metadata.name", name, f"must be no more than {_LONGEST_CRON_JOB} characters"))


_TEMPLATE_OF_JOB: Final = Fields({}, _JOB_SPEC, _generated_selector)
cron_job = Fields(
    {
        "spec": needed(
            Fields(
                {
                    "schedule": needed(_schedule),
                    "startingDeadlineSeconds": pointer(non_negative),
                    "concurrencyPolicy": or_zero(one_of("Allow", "Forbid", "Replace"), ""),
                    "timeZone": pointer(_zone),
                    "jobTemplate": or_zero(Fields({"spec": or_zero(_TEMPLATE_OF_JOB, {})}), {}),
                    "successfulJobsHistoryLimit": pointer(non_negative),
                    "failedJobsHistoryLimit": pointer(non_negative),
                }
            )
        )
    }
)


def _one_bound(value: Mapping[str, Any], path: str, found: Causes) -> None:
    if value.get("minAvailable") is not None and value.get("maxUnavailable") is not None:
        found.append(invalid(path, dict(value), "minAvailable and maxUnavailable cannot be both set"))


pod_disruption_budget = Fields(
    {
        "spec": Fields(
            {
                "minAvailable": pointer(_at_most_all),
                "maxUnavailable": pointer(_at_most_all),
                "selector": label_selector,
                "unhealthyPodEvictionPolicy": pointer(one_of("AlwaysAllow", "IfHealthyBudget")),
            },
            _one_bound,
        )
    }
)


def keeping(*fields: str) -> Callable[[JsonObject, JsonObject, Causes], None]:
    """Return the rule of changes that some fields of a spec stay."""

    def update(new: JsonObject, live: JsonObject, found: Causes) -> None:
        for field in fields:
            immutable((new.get("spec") or {}).get(field), (live.get("spec") or {}).get(field), f"spec.{field}", found)

    return update


CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"


def job_labels(name: str, uid: str) -> dict[str, str]:
    """Return the labels that identify a Job's pods."""
    return {CONTROLLER_UID: uid, "controller-uid": uid, "batch.kubernetes.io/job-name": name, "job-name": name}


def job_creation(obj: JsonObject, found: Causes) -> None:
    """Check the selector and the labels of a new Job: the API server makes them, but for one with `manualSelector`."""
    spec, name = obj.get("spec") or {}, str(obj["metadata"].get("name") or "")
    selector, own = spec.get("selector"), dict[str, str]()
    if not spec.get("manualSelector"):
        own = job_labels(name, "")
        labels(own, "spec.template.labels", found)
        if selector is None:
            return
        selector = {**selector, "matchLabels": {CONTROLLER_UID: "", **(selector.get("matchLabels") or {})}}
        if not matcher_of(selector)(own):
            found.append(invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
    elif selector is None:
        found.append(required("spec.selector"))
    of_pods = {**(((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}), **own}
    if not matcher_of(selector)(of_pods):
        found.append(_unmatched("spec.template.metadata.labels", of_pods))


_OF_JOB: Final = (
    "selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy",
)  # fmt: skip
_PLACING: Final = ("nodeSelector", "tolerations", "schedulingGates")
"""The fields of a Job's pods that may change before it begins, beside their labels, annotations and node affinity."""


def job_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check a change of a Job: where its pods go may change while it is suspended and has not begun."""
    wanted, before, status = new.get("spec") or {}, live.get("spec") or {}, live.get("status") or {}
    if wanted.get("selector") is None and before.get("selector") is not None:
        found.append(required("spec.selector"))
        _matches_template(wanted, "spec", found)
    completions, path = wanted.get("completions"), "spec.completions"
    if before.get("completionMode") != "Indexed":
        immutable(completions, before.get("completions"), path, found)
    elif completions is not None and completions not in (before.get("completions"), wanted.get("parallelism")):
        found.append(invalid(path, completions, "can only be modified in tandem with spec.parallelism"))
    keeping(*_OF_JOB)(new, live, found)
    one, other = wanted.get("template") or {}, before.get("template") or {}
    if before.get("suspend") and not status.get("startTime"):
        one, other = map(_without_placing, (one, other))
    if one != other:
        found.append(invalid("spec.template", wanted.get("template"), IMMUTABLE))
    elif wanted.get("template") != before.get("template") and wanted.get("selector"):
        _matches_template(wanted, "spec", found)  # else the Job would not count the pods that it makes


def _without_placing(template: JsonObject) -> JsonObject:
    """Return a template without what may change before the first pod is made."""
    spec = {name: value for name, value in (template.get("spec") or {}).items() if name not in _PLACING}
    affinity = {name: value for name, value in (spec.pop("affinity", None) or {}).items() if name != "nodeAffinity"}
    metadata = template.get("metadata") or {}
    kept = {name: value for name, value in metadata.items() if name not in ("labels", "annotations")}
    return {"metadata": kept, "spec": {**spec, "affinity": affinity}}


_OF_STATEFUL_SET: Final = frozenset(
    ("replicas", "ordinals", "template", "updateStrategy", "minReadySeconds", "persistentVolumeClaimRetentionPolicy")
)  # fmt: skip


def stateful_set_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check a change of a StatefulSet: most fields are immutable."""
    before, after = (
        {name: value for name, value in (obj.get("spec") or {}).items() if value and name not in _OF_STATEFUL_SET}
        for obj in (live, new)
    )
    if before != after:
        known = "'replicas', 'ordinals', 'template', 'updateStrategy', "
        last = "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        found.append(forbidden("spec", f"updates to statefulset spec for fields other than {known}{last}"))


def controller_revision_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that a ControllerRevision keeps its data."""
    immutable(new.get("data"), live.get("data"), "data", found)
