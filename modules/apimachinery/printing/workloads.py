"""The cells of workloads in kubectl's tables: Deployments, DaemonSets, Jobs and their likes."""

from operator import itemgetter
from typing import Final

from modules.apimachinery.printing.ages import ago, human_duration, seconds_of
from modules.apimachinery.printing.fields import JsonObject, list_at, map_at, objects_at, text_at, value_at

NONE: Final = "<none>"
_TEMPLATES: Final = {"CronJob": "spec.jobTemplate.spec.template", "PodTemplate": "template"}
"""The paths of templates that are elsewhere than in the spec."""
_SIGNS: Final = {"In": "in", "NotIn": "notin"}
_METRICS: Final = ("ContainerResource", "External", "Object", "Pods", "Resource")
_UNKNOWN: Final = "<unknown>"
_MOST_TARGETS: Final = 2


def number_at(obj: JsonObject, path: str, otherwise: int = 0) -> int:
    """Return a whole number in an object, or the default."""
    found = value_at(obj, path)
    return found if isinstance(found, int) else otherwise


def ready_of_wanted(workload: JsonObject, _: float) -> str:
    """Return the ready and the wanted replicas: `2/3`."""
    return f"{number_at(workload, 'status.readyReplicas')}/{number_at(workload, 'spec.replicas', 1)}"


def containers(workload: JsonObject, _: float) -> str:
    """Return the names of the template's containers."""
    return ",".join(text_at(each, "name") for each in _containers(workload))


def images(workload: JsonObject, _: float) -> str:
    """Return the images of the template's containers."""
    return ",".join(text_at(each, "image") for each in _containers(workload))


def selector(workload: JsonObject, _: float) -> str:
    """Return the label selector."""
    path = "spec.jobTemplate.spec.selector" if workload.get("kind") == "CronJob" else "spec.selector"
    return selector_text(map_at(workload, path)) or NONE


def pod_selector(policy: JsonObject, _: float) -> str:
    """Return the label selector of the pods that a policy is about."""
    return selector_text(map_at(policy, "spec.podSelector")) or NONE


def targets(autoscaler: JsonObject, _: float) -> str:
    """Return what an autoscaler measures and its targets: `cpu: <unknown>/80%`; of more than two the number."""
    states = objects_at(autoscaler, "status.currentMetrics")
    metrics = objects_at(autoscaler, "spec.metrics")
    shown = [_target(each, states[place] if place < len(states) else {}) for place, each in enumerate(metrics)]
    more = f" + {len(shown) - _MOST_TARGETS} more..." if len(shown) > _MOST_TARGETS else ""
    return f"{', '.join(shown[:_MOST_TARGETS])}{more}" or NONE


def _target(metric: JsonObject, state: JsonObject) -> str:
    """Return the state of a metric beside its target."""
    kind = text_at(metric, "type")
    if kind not in _METRICS:
        return "<unknown type>"
    place, is_usage = f"{kind[:1].lower()}{kind[1:]}", kind.endswith("Resource")
    of, now = map_at(metric, f"{place}.target"), map_at(state, f"{place}.current")
    name = f"{text_at(metric, f'{place}.name')}: " if is_usage else ""
    if average := text_at(of, "averageValue"):
        end = " (avg)" if kind in ("External", "Object") else ""
        return f"{name}{text_at(now, 'averageValue') or _UNKNOWN}/{average}{end}"
    if not is_usage:
        return f"{text_at(now, 'value') or _UNKNOWN}/{text_at(of, 'value')}"
    present, wanted = (text_at(each, "averageUtilization") for each in (now, of))
    return f"{name}{f'{present}%' if present else _UNKNOWN}/{f'{wanted}%' if wanted else '<auto>'}"


def selector_text(selector: JsonObject) -> str:
    """Return a label selector (metav1.LabelSelector) as kubectl prints it, by its keys: `app=web,tier in (a,b)`."""
    exact = [(key, f"{key}={value}") for key, value in map_at(selector, "matchLabels").items()]
    others = [(text_at(each, "key"), _expression(each)) for each in objects_at(selector, "matchExpressions")]
    return ",".join(text for _, text in sorted([*exact, *others], key=itemgetter(0)))


def node_selector(workload: JsonObject, _: float) -> str:
    """Return the node selector of the template."""
    found = map_at(workload, "spec.template.spec.nodeSelector")
    return ",".join(f"{key}={value}" for key, value in sorted(found.items())) or NONE


def job_status(job: JsonObject, _: float) -> str:
    """Return the state of a Job, in the words of kube-apiserver 1.32."""
    true = {text_at(each, "type") for each in objects_at(job, "status.conditions") if each.get("status") == "True"}
    for kind in ("Complete", "Failed"):
        if kind in true:
            return kind
    if text_at(job, "metadata.deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget"):
        if kind in true:
            return kind
    return "Running"


def job_completions(job: JsonObject, _: float) -> str:
    """Return the successes and the wanted ones: `2/5`; `0/1 of 3` for a Job with a work queue."""
    succeeded, completions = number_at(job, "status.succeeded"), value_at(job, "spec.completions")
    if isinstance(completions, int):
        return f"{succeeded}/{completions}"
    parallelism = number_at(job, "spec.parallelism", 1)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def job_duration(job: JsonObject, now: float) -> str:
    """Return how long a Job has run, or took."""
    started, ended = seconds_of(text_at(job, "status.startTime")), seconds_of(text_at(job, "status.completionTime"))
    if started is None:
        return ""
    return human_duration(max(0, int((now if ended is None else ended) - started)))


def cron_job_zone(cron_job: JsonObject, _: float) -> str:
    """Return the time zone of a schedule."""
    return text_at(cron_job, "spec.timeZone") or NONE


def cron_job_suspended(cron_job: JsonObject, _: float) -> str:
    """Return whether a CronJob is suspended, as kube-apiserver prints it."""
    return "True" if value_at(cron_job, "spec.suspend") else "False"


def last_schedule(cron_job: JsonObject, now: float) -> str:
    """Return the age of the last scheduled time."""
    text = text_at(cron_job, "status.lastScheduleTime")
    return ago(text, now) if text else NONE


def owner(obj: JsonObject, _: float) -> str:
    """Return the controller of an object: `daemonset.apps/agent`."""
    for each in objects_at(obj, "metadata.ownerReferences"):
        if each.get("controller"):
            group = text_at(each, "apiVersion").rpartition("/")[0]
            return f"{text_at(each, 'kind').lower()}{f'.{group}' if group else ''}/{text_at(each, 'name')}"
    return NONE


def _expression(expression: JsonObject) -> str:
    key, operator = text_at(expression, "key"), text_at(expression, "operator")
    if operator in _SIGNS:
        return f"{key} {_SIGNS[operator]} ({','.join(sorted(map(str, list_at(expression, 'values'))))})"
    return f"!{key}" if operator == "DoesNotExist" else key


def _containers(workload: JsonObject) -> list[JsonObject]:
    base = _TEMPLATES.get(str(workload.get("kind")), "spec.template")
    return objects_at(workload, f"{base}.spec.containers")
