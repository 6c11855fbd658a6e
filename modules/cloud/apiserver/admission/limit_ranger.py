"""The admission plug-in LimitRanger: amounts of pods and claims by the LimitRanges of their namespace."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.conversion import convert
from modules.apimachinery.kinds import JsonObject, is_being_deleted, kind_named
from modules.apimachinery.lister import Lister
from modules.apimachinery.pods.demand import pod_sum
from modules.apimachinery.pods.qos import qos_class
from modules.apimachinery.types.pods import Pod
from modules.apimachinery.types.quantity import canonical_quantity, milli_value, whole_value
from modules.apimachinery.validation.limit_ranges import MAPS
from modules.cloud.apiserver.quotas.usage import written

_LIMIT_RANGE: Final = kind_named("LimitRange")
_CLAIM: Final = "PersistentVolumeClaim"
_CONTAINER: Final = "Container"
_POD: Final = "Pod"
_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_MOST: Final = 10_000
"""Amounts of LimitRanges, times containers, that a pod is held against: 50 ms."""
_LARGEST_WITH_MILLIS: Final = (2**63 - 1) // 1000

_Amounts = Mapping[str, Any]
"""Quantities by the names of resources."""


class _Limit(NamedTuple):
    """A limit, and the requests and limits that it bounds."""

    of_type: str
    name: str
    enforced: Any
    requests: _Amounts
    limits: _Amounts

    @property
    def shown(self) -> str:
        """The limit as Kubernetes shows it."""
        return canonical_quantity(self.enforced)


def with_default_amounts(pod: JsonObject, live: JsonObject | None, objects: Lister) -> JsonObject:
    """Return a new pod whose containers have the amounts that its namespace's LimitRanges say, where they name none.

    Raises:
        ForbiddenError: the LimitRanges name too many amounts.
    """
    ranges = () if live is not None else _ranges_of(pod, objects)
    for each in ranges:
        pod = _completed(pod, each)
    if ranges and "qosClass" in (pod.get("status") or {}):
        pod = {**pod, "status": {**pod["status"], "qosClass": qos_class(convert(pod, Pod, _POD)).value}}
    return pod


def check_pod(pod: JsonObject, live: JsonObject | None, objects: Lister) -> None:
    """Check that a new pod and its containers keep the LimitRanges of its namespace.

    Raises:
        ForbiddenError: one does not.
    """
    for each in () if live is not None else _ranges_of(pod, objects):
        _refuse(pod, [*_faults_of_pod(pod, each)])


def check_claim(claim: JsonObject, live: JsonObject | None, objects: Lister) -> None:
    """Check that a claim keeps the LimitRanges of its namespace. A claim that is being deleted may go on.

    Raises:
        ForbiddenError: it does not.
    """
    if live is not None and is_being_deleted(live):
        return
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    for each in _ranges_of(claim, objects):
        faults = [
            why
            for limit in _limits_of(each, _CLAIM)
            for field, check in (("min", _below), ("max", _request_above))
            for name, enforced in sorted((limit.get(field) or {}).items())
            if (why := check(_Limit(_CLAIM, name, enforced, requests, {})))
        ]
        _refuse(claim, faults)


def _ranges_of(obj: JsonObject, objects: Lister) -> Sequence[JsonObject]:
    found = objects.list(_LIMIT_RANGE, obj["metadata"].get("namespace") or "default")
    named = sum(len(limit.get(field) or {}) for each in found for limit in _limits_of(each) for field in MAPS)
    if named * max(1, len([*_containers(obj)])) > _MOST:
        kind = kind_named(obj["kind"])
        why = f"the LimitRanges of its namespace name {named} amounts: too many for its containers"
        raise ForbiddenError(kind.plural, obj["metadata"]["name"], why)
    return found


def _limits_of(limit_range: JsonObject, *types: str) -> Iterator[JsonObject]:
    for limit in (limit_range.get("spec") or {}).get("limits") or ():
        if not types or limit.get("type") in types:
            yield limit


def _containers(obj: JsonObject) -> Iterator[JsonObject]:
    spec = obj.get("spec") or {}
    yield from spec.get("containers") or ()
    yield from spec.get("initContainers") or ()


def _completed(pod: JsonObject, limit_range: JsonObject) -> JsonObject:
    """Return a pod with the defaults of one LimitRange, and the annotation that names them."""
    spec, told, lists = pod["spec"], list[str](), dict[str, list[JsonObject]]()
    requests, limits = (_defaults(limit_range, field) for field in ("defaultRequest", "default"))
    for containers, word in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(containers) or ():
            resources = dict(container.get("resources") or {})
            for field, amounts in (("requests", requests), ("limits", limits)):
                given = resources.get(field) or {}
                if added := sorted(amounts.keys() - given.keys()):
                    resources[field] = {**amounts, **given}
                    told.append(f"{', '.join(added)} {field.removesuffix('s')} for {word} {container.get('name')}")
            lists.setdefault(containers, []).append({**container, "resources": resources})
    if not told:
        return pod
    metadata = pod["metadata"]
    annotations = {**(metadata.get("annotations") or {}), _ANNOTATION: f"LimitRanger plugin set: {'; '.join(told)}"}
    return {**pod, "metadata": {**metadata, "annotations": annotations}, "spec": {**spec, **lists}}


def _defaults(limit_range: JsonObject, field: str) -> JsonObject:
    found = (each.get(field) or {} for each in _limits_of(limit_range, _CONTAINER))
    return {name: amount for amounts in found for name, amount in amounts.items()}


def _faults_of_pod(pod: JsonObject, limit_range: JsonObject) -> Iterator[str]:
    for limit in _limits_of(limit_range, _CONTAINER):
        for container in _containers(pod):
            resources = container.get("resources") or {}
            yield from _faults(limit, resources.get("requests") or {}, resources.get("limits") or {})
    limits = [*_limits_of(limit_range, _POD)]
    if limits:
        whole = convert(pod, Pod, _POD)
        sums = pod_sum(whole, lambda resources: resources.requests), pod_sum(whole, lambda resources: resources.limits)
        requests, most = ({name: written(name, amount) for name, amount in each.items()} for each in sums)
        for limit in limits:
            yield from _faults(limit, requests, most)


def _faults(limit: JsonObject, requests: _Amounts, limits: _Amounts) -> Iterator[str]:
    for field, check in (("min", _below), ("max", _above), ("maxLimitRequestRatio", _ratio)):
        for name, enforced in sorted((limit.get(field) or {}).items()):
            if why := check(_Limit(limit["type"], name, enforced, requests, limits)):
                yield why


def _below(limit: _Limit) -> str:
    words = f"minimum {limit.name} usage per {limit.of_type} is {limit.shown}"
    requested, most, least = _comparable(limit)
    if requested is None:
        return f"{words}.  No request is specified"
    if requested < least:
        return f"{words}, but request is {canonical_quantity(limit.requests[limit.name])}"
    if most is not None and most < least:
        return f"{words}, but limit is {canonical_quantity(limit.limits[limit.name])}"
    return ""


def _above(limit: _Limit) -> str:
    words = f"maximum {limit.name} usage per {limit.of_type} is {limit.shown}"
    requested, most, enforced = _comparable(limit)
    if most is None:
        return f"{words}.  No limit is specified"
    if most > enforced:
        return f"{words}, but limit is {canonical_quantity(limit.limits[limit.name])}"
    if requested is not None and requested > enforced:
        return f"{words}, but request is {canonical_quantity(limit.requests[limit.name])}"
    return ""


def _request_above(limit: _Limit) -> str:
    words = f"maximum {limit.name} usage per {limit.of_type} is {limit.shown}"
    requested, _, enforced = _comparable(limit)
    if requested is None:
        return f"{words}.  No request is specified"
    return f"{words}, but request is {canonical_quantity(limit.requests[limit.name])}" if requested > enforced else ""


def _ratio(limit: _Limit) -> str:
    words = f"{limit.name} max limit to request ratio per {limit.of_type} is {limit.shown}"
    requested, most, _ = _comparable(limit)
    if not requested:
        return f"{words}, but no request is specified or request is 0"
    if not most:
        return f"{words}, but no limit is specified or limit is 0"
    ratio = Fraction(most, requested)
    return f"{words}, but provided ratio is {float(ratio):f}" if ratio * 1000 > milli_value(limit.enforced) else ""


def _comparable(limit: _Limit) -> tuple[int | None, int | None, int]:
    """Return request, limit and enforced amount in thousandths, or whole where one is too large for those."""
    given = limit.requests.get(limit.name), limit.limits.get(limit.name), limit.enforced
    are_small = all(one is None or whole_value(one) <= _LARGEST_WITH_MILLIS for one in given)
    of = milli_value if are_small else whole_value
    requested, most, enforced = given
    return None if requested is None else of(requested), None if most is None else of(most), of(enforced)


def _refuse(obj: JsonObject, faults: Sequence[str]) -> None:
    if told := [*dict.fromkeys(faults)]:
        why = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
        raise ForbiddenError(kind_named(obj["kind"]).plural, obj["metadata"]["name"], why)
