"""Advice about fields of an accepted object that are deprecated, without effect, or not as they seem.

After the warnings of kube-apiserver 1.32 (`GetWarningsForPod` in pkg/api/pod, and those of the other kinds), with its
words; without those about paths in volumes, and about IP addresses.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.types.quantity import QuantityError, milli_value
from modules.apimachinery.validation.names import faults_of_label, faults_of_label_key
from modules.cloud.client.calls import ApiCall, ApiResult

_Advisor = Callable[[JsonObject], Iterator[str]]

_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
"""Labels of nodes that selectors should not name any more."""
_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_OF_VOLUMES: Final = {
    "volume.beta.kubernetes.io/storage-class": 'deprecated since v1.8; use "storageClassName" attribute instead',
    "volume.beta.kubernetes.io/mount-options": 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_GONE: Final = "deprecated in v1.22, non-functional in v1.25+"
_OF_TYPES: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    **dict.fromkeys(("flocker", "storageOS", "quobyte"), _GONE),
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    **dict.fromkeys(("cephfs", "rbd"), "deprecated in v1.28, non-functional in v1.31+"),
}
"""Types of volumes."""
_SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/pod"
_OF_CONTAINERS: Final = (
    ("container.seccomp.security.alpha.kubernetes.io/", "seccompProfile", "non-functional in v1.27+"),
    ("container.apparmor.security.beta.kubernetes.io/", "appArmorProfile", "deprecated since v1.30"),
)
_BYTES: Final = ("memory", "ephemeral-storage")
_NULL_SELECTOR: Final = "a null labelSelector results in matching no pod"
_FINALIZERS: Final = ("orphan", "foregroundDeletion", "kubernetes")
_IN_NAMES: Final = "which can result in surprising behavior; a DNS label is recommended"
_MOST: Final = 20
"""Warnings of one answer, whose head stays below 8 KiB; a pod may have thousands of variables."""


def object_advice(
    custom: Container[tuple[str, str]], request: ApiCall, result: ApiResult, before: JsonObject | None
) -> tuple[str, ...]:
    """Return the advice about an object that a user has created or changed; of a pod or an Ingress, only about a new
    one, and of a workload about one with a new generation.

    Args:
        custom: the custom kinds, by apiVersion and plural.
        request: what was asked.
        result: its answer.
        before: the object as it was; None: it is new.
    """
    obj = result.object
    if request.node or request.subresource or obj is None or request.verb not in ("create", "update", "patch"):
        return ()
    place = (request.api_version, request.plural)
    if place in custom:
        return tuple(islice(_of_finalizers(obj, before), _MOST))
    advisor = _ADVISORS.get(place)
    if advisor is None or (before is not None and _is_known(advisor, obj, before)):
        return ()
    of_name = _of_name(request.plural, obj) if before is None else ()
    return tuple(islice(chain(of_name, advisor(obj)), _MOST))


def _is_known(advisor: _Advisor, obj: JsonObject, before: JsonObject) -> bool:
    """Return whether advice about a changed object has been given: of a workload, its spec has not changed."""
    is_same = obj["metadata"].get("generation") == before["metadata"].get("generation")
    return advisor in (_pod, _ingress) or (advisor in (_workload, _stateful_set, _cron_job) and is_same)


def _of_finalizers(obj: JsonObject, before: JsonObject | None) -> Iterator[str]:
    old = ((before or {}).get("metadata") or {}).get("finalizers") or ()
    for name in (obj.get("metadata") or {}).get("finalizers") or ():
        if name in old:
            continue
        yield from (f'metadata.finalizers: "{name}": {fault}' for fault in faults_of_label_key(name))
        if "/" not in name and name not in _FINALIZERS:
            path = " including a path (/)" if "." in name else ""
            why = f"prefer a domain-qualified finalizer name{path} to avoid accidental conflicts"
            yield f'metadata.finalizers: "{name}": {why} with other finalizer writers'


def _of_name(plural: str, obj: JsonObject) -> Iterator[str]:
    used = _NAMES.get(plural)
    if used and (faults := [*faults_of_label(str(obj["metadata"].get("name") or ""))]):
        yield f"metadata.name: this is used in {used}, {_IN_NAMES}: [{' '.join(faults)}]"


def _pod(pod: JsonObject) -> Iterator[str]:
    yield from _pod_advice(pod, "")


def _pod_advice(pod: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the advice about a pod or a template; `path` is its place, with a dot at its end."""
    spec, annotations = pod.get("spec") or {}, (pod.get("metadata") or {}).get("annotations") or {}
    yield from _of_labels(spec.get("nodeSelector") or {}, f"{path}spec.nodeSelector")
    affinity = spec.get("affinity") or {}
    of_nodes, where = affinity.get("nodeAffinity") or {}, f"{path}spec.affinity.nodeAffinity"
    terms = (of_nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    yield from _of_terms(terms, f"{where}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms")
    preferred = of_nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    for index, each in enumerate(preferred):
        at = f"{where}.preferredDuringSchedulingIgnoredDuringExecution[{index}].preference"
        yield from _of_expressions(each.get("preference") or {}, at)
    for index, each in enumerate(spec.get("topologySpreadConstraints") or ()):
        at, key = f"{path}spec.topologySpreadConstraints[{index}]", each.get("topologyKey")
        if key in _LABELS:
            yield f"{at}.topologyKey: {key} is {_LABELS[key]}"
        if each.get("labelSelector") is None:
            yield f"{at}.labelSelector: {_NULL_SELECTOR}"
    yield from _of_annotations(annotations, _ANNOTATIONS, path)
    for index, volume in enumerate(spec.get("volumes") or ()):
        yield from (f"{path}spec.volumes[{index}].{each}: {why}" for each, why in _OF_TYPES.items() if each in volume)
    yield from _of_repeated(spec.get("hostAliases") or (), "ip", f"{path}spec.hostAliases")
    yield from _of_secrets(spec.get("imagePullSecrets") or (), f"{path}spec.imagePullSecrets")
    context = spec.get("securityContext") or {}
    if _SECCOMP in annotations and context.get("seccompProfile") is None:
        why = 'non-functional in v1.27+; use the "seccompProfile" field instead'
        yield f"{path}metadata.annotations[{_SECCOMP}]: {why}"
    yield from _of_all_containers(spec, annotations, path)
    if (seconds := spec.get("terminationGracePeriodSeconds")) is not None and seconds < 0:
        why = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{path}spec.terminationGracePeriodSeconds: {why}"
    for name in ("podAffinity", "podAntiAffinity"):
        yield from _of_pod_terms(affinity.get(name) or {}, f"{path}spec.affinity.{name}")


def _of_labels(labels: Mapping[str, Any], path: str) -> Iterator[str]:
    for key in labels:
        if key in _LABELS:
            yield f"{path}[{key}]: {_LABELS[key]}"


def _of_terms(terms: Any, path: str) -> Iterator[str]:
    for index, term in enumerate(terms):
        yield from _of_expressions(term, f"{path}[{index}]")


def _of_expressions(term: Mapping[str, Any], path: str) -> Iterator[str]:
    for index, each in enumerate(term.get("matchExpressions") or ()):
        if each.get("key") in _LABELS:
            yield f"{path}.matchExpressions[{index}].key: {each['key']} is {_LABELS[each['key']]}"


def _of_annotations(annotations: Mapping[str, Any], deprecated: Mapping[str, str], path: str) -> Iterator[str]:
    for key, why in deprecated.items():
        if key in annotations:
            yield f"{path}metadata.annotations[{key}]: {why}"


def _of_repeated(items: Any, field: str, path: str) -> Iterator[str]:
    seen = set[Any]()
    for index, each in enumerate(items):
        if (value := each.get(field) or "") in seen:
            yield f'{path}[{index}].{field}: duplicate {field} "{value}"'
        seen.add(value)


def _of_secrets(secrets: Any, path: str) -> Iterator[str]:
    yield from _of_repeated(secrets, "name", path)
    for index, each in enumerate(secrets):
        if not each.get("name"):
            yield f'{path}[{index}].name: invalid empty name ""'


def _of_all_containers(spec: Mapping[str, Any], annotations: Mapping[str, Any], path: str) -> Iterator[str]:
    of_pod = spec.get("securityContext") or {}
    places = [
        (each, f"{path}spec.{field}[{index}]")
        for field in ("initContainers", "containers", "ephemeralContainers")
        for index, each in enumerate(spec.get(field) or ())
    ]
    for each, where in places:
        context = each.get("securityContext") or {}
        for prefix, field, since in _OF_CONTAINERS:
            key = f"{prefix}{each.get('name')}"
            is_set = context.get(field) is not None or (field != "seccompProfile" and of_pod.get(field) is not None)
            if key in annotations and not is_set and (path or field == "seccompProfile"):
                yield f'{path}metadata.annotations[{key}]: {since}; use the "{field}" field instead'
        for kind in ("limits", "requests"):
            yield from _of_bytes((each.get("resources") or {}).get(kind) or {}, _BYTES, f"{where}.resources.{kind}")
        yield from _of_variables(each.get("env") or (), f"{where}.env")
    yield from _of_ports(places)


def _of_bytes(amounts: Mapping[str, Any], names: tuple[str, ...], path: str) -> Iterator[str]:
    for name in names:
        try:
            is_broken = name in amounts and milli_value(amounts[name]) % 1000 != 0
        except QuantityError:
            continue
        if is_broken:
            yield f'{path}[{name}]: fractional byte value "{amounts[name]}" is invalid, must be an integer'


def _of_variables(variables: Any, path: str) -> Iterator[str]:
    seen = set[Any]()
    for index, each in enumerate(variables):
        name, value = each.get("name"), str(each.get("value") or "")
        itself = f"$({name})"
        if name in seen and (each.get("valueFrom") is not None or value == itself or itself not in value):
            yield f'{path}[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)


def _of_ports(places: list[tuple[Mapping[str, Any], str]]) -> Iterator[str]:
    known: dict[tuple[Any, Any], list[tuple[str, str, int]]] = {}
    for each, where in places:
        for index, port in enumerate(each.get("ports") or ()):
            at, address, number = f"{where}.ports[{index}]", port.get("hostIP") or "", port.get("hostPort") or 0
            others = known.setdefault((port.get("containerPort"), port.get("protocol") or "TCP"), [])
            for other, its_address, its_number in others[:_MOST]:
                if (address, number) == (its_address, its_number):
                    yield f"{at}: duplicate port definition with {other}"
                elif not number or not its_number:
                    yield f"{at}: overlapping port definition with {other}"
                elif number == its_number and bool(address) is not bool(its_address):
                    yield f"{at}: dangerously ambiguous port definition with {other}"
            others.append((at, address, number))


def _of_pod_terms(affinity: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, inner in (
        ("requiredDuringSchedulingIgnoredDuringExecution", ""),
        ("preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm"),
    ):
        for index, each in enumerate(affinity.get(name) or ()):
            term = (each.get(inner) or {}) if inner else each
            if term.get("labelSelector") is None:
                yield f"{path}.{name}[{index}].{f'{inner}.' if inner else ''}labelSelector: {_NULL_SELECTOR}"


def _workload(obj: JsonObject) -> Iterator[str]:
    yield from _pod_advice((obj.get("spec") or {}).get("template") or {}, "spec.template.")


def _stateful_set(obj: JsonObject) -> Iterator[str]:
    yield from _workload(obj)
    for index, claim in enumerate((obj.get("spec") or {}).get("volumeClaimTemplates") or ()):
        yield from _of_claim(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}]")


def _cron_job(obj: JsonObject) -> Iterator[str]:
    job = ((obj.get("spec") or {}).get("jobTemplate") or {}).get("spec") or {}
    yield from _pod_advice(job.get("template") or {}, "spec.jobTemplate.spec.template.")


def _ingress(obj: JsonObject) -> Iterator[str]:
    name = "kubernetes.io/ingress.class"
    is_named = (obj.get("spec") or {}).get("ingressClassName") is not None
    if name in (obj["metadata"].get("annotations") or {}) and not is_named:
        yield f"annotation \"{name}\" is deprecated, please use 'spec.ingressClassName' instead"


def _claim(obj: JsonObject) -> Iterator[str]:
    annotations = obj["metadata"].get("annotations") or {}
    yield from _of_annotations(annotations, dict([*_OF_VOLUMES.items()][:1]), "")
    yield from _of_claim(obj.get("spec") or {}, "spec")


def _of_claim(spec: Mapping[str, Any], path: str) -> Iterator[str]:
    resources = spec.get("resources") or {}
    for kind in ("requests", "limits"):
        yield from _of_bytes(resources.get(kind) or {}, ("storage",), f"{path}.resources.{kind}")


def _volume(obj: JsonObject) -> Iterator[str]:
    spec = obj.get("spec") or {}
    yield from _of_annotations(obj["metadata"].get("annotations") or {}, _OF_VOLUMES, "")
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        better = "Instead, the recommended approach is to use dynamic provisioning."
        yield f"spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. {better}"
    terms = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    yield from _of_terms(terms, "spec.nodeAffinity.required.nodeSelectorTerms")


def _service(obj: JsonObject) -> Iterator[str]:
    spec = obj.get("spec") or {}
    is_external = spec.get("type") == "ExternalName"
    if is_external and spec.get("externalIPs"):
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if not is_external and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'


_NAMES: Final = {
    "pods": "the Pod's hostname",
    **dict.fromkeys(("deployments", "replicasets", "jobs", "cronjobs"), "Pod names and hostnames"),
}
"""What the names of new objects are used in, by plural."""
_ADVISORS: Final[dict[tuple[str, str], _Advisor]] = {
    ("v1", "pods"): _pod,
    ("v1", "replicationcontrollers"): _workload,
    **dict.fromkeys((("apps/v1", plural) for plural in ("deployments", "replicasets", "daemonsets")), _workload),
    ("apps/v1", "statefulsets"): _stateful_set,
    ("batch/v1", "jobs"): _workload,
    ("batch/v1", "cronjobs"): _cron_job,
    ("networking.k8s.io/v1", "ingresses"): _ingress,
    ("v1", "persistentvolumeclaims"): _claim,
    ("v1", "persistentvolumes"): _volume,
    ("v1", "services"): _service,
}
