"""What an object counts for in a ResourceQuota (kube-apiserver 1.32, `pkg/quota/v1/evaluator/core`)."""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final

from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.conversion import convert
from modules.apimachinery.kinds import JsonObject, Kind
from modules.apimachinery.pods.demand import pod_limits, pod_requests
from modules.apimachinery.pods.objects import has_ended
from modules.apimachinery.times import parse_rfc3339
from modules.apimachinery.types.pods import Pod
from modules.apimachinery.types.quantity import QuantityError, format_binary_quantity, format_quantity, parse_quantity

Amounts = Mapping[str, Fraction]

_BY_PLAIN_NAME: Final = (
    "ConfigMap", "PersistentVolumeClaim", "ReplicationController", "ResourceQuota", "Secret", "Service",
)  # fmt: skip
"""The kinds that have a name in quotas without `count/`; pods have one, too."""
_COMPUTED: Final = ("cpu", "memory", "ephemeral-storage")
_HUGE: Final = "hugepages-"
_ONE: Final = Fraction(1)
_IN_BYTES: Final = ("memory", "storage")
REQUIRED: Final = frozenset(
    ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"),
)
"""The amounts that each container must name where a quota bounds them."""


def usage_of(obj: JsonObject, kind: Kind) -> Amounts:
    """Return what an object counts for, by the names of resources in quotas."""
    used = {f"count/{kind.plural}{'.' * bool(kind.api_group)}{kind.api_group}": _ONE}
    if kind.key_name in _BY_PLAIN_NAME:
        used[kind.plural] = _ONE
    try:
        of_kind = {"Pod": _of_pod, "PersistentVolumeClaim": _of_claim, "Service": _of_service}.get(kind.key_name)
        return {**used, **dict(of_kind(obj))} if of_kind is not None else used
    except (BadRequestError, QuantityError):  # a node's mirror pod with amounts that cannot be read
        return used


def returned_by(pod: JsonObject, now: float) -> Amounts:
    """Return what a pod no longer counts for, although it is there: its node should have ended it for a grace period,
    and does not answer. Others could not be made in its place (`QuotaV1Pod`).
    """
    metadata = pod["metadata"]
    ends, grace = parse_rfc3339(str(metadata.get("deletionTimestamp"))), metadata.get("deletionGracePeriodSeconds")
    if ends is None or not isinstance(grace, int) or now <= ends + grace:
        return {}
    try:
        return dict(_of_pod(pod))
    except (BadRequestError, QuantityError):
        return {}


def _of_pod(obj: JsonObject) -> Iterator[tuple[str, Fraction]]:
    if has_ended(obj):
        return
    pod = convert(obj, Pod, "Pod")
    yield "pods", _ONE
    for name, amount in pod_requests(pod).items():
        yield f"requests.{name}", amount
        if name in _COMPUTED or name.startswith(_HUGE):
            yield name, amount
    for name, amount in pod_limits(pod).items():
        if name in _COMPUTED:
            yield f"limits.{name}", amount


def _of_claim(claim: JsonObject) -> Iterator[tuple[str, Fraction]]:
    spec = claim.get("spec") or {}
    amount = parse_quantity(((spec.get("resources") or {}).get("requests") or {}).get("storage") or "0")
    yield "requests.storage", amount
    if name := spec.get("storageClassName"):
        yield f"{name}.storageclass.storage.k8s.io/requests.storage", amount
        yield f"{name}.storageclass.storage.k8s.io/persistentvolumeclaims", _ONE


def _of_service(service: JsonObject) -> Iterator[tuple[str, Fraction]]:
    spec = service.get("spec") or {}
    is_balanced = spec.get("type") == "LoadBalancer"
    if is_balanced:
        yield "services.loadbalancers", _ONE
    if is_balanced or spec.get("type") == "NodePort":
        is_given = is_balanced and spec.get("allocateLoadBalancerNodePorts") is False
        ports = spec.get("ports") or ()
        yield "services.nodeports", Fraction(sum(not is_given or bool(port.get("nodePort")) for port in ports))


def missing_amounts(pod: JsonObject, bounded: Iterable[str]) -> str:
    """Return the amounts that a quota bounds and a container of a pod does not name, in Kubernetes' words, or ""."""
    wanted, lacking = REQUIRED & set(bounded), dict[str, list[str]]()
    spec = pod.get("spec") or {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        requests = (resources.get("requests") or {}).keys() | (resources.get("limits") or {}).keys()
        named = requests | {f"requests.{name}" for name in requests}
        named |= {f"limits.{name}" for name in resources.get("limits") or {}}
        for name in wanted - named:
            lacking.setdefault(name, []).append(str(container.get("name")))
    return "; ".join(f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking))


def shown(amounts: Amounts) -> str:
    """Return amounts as Kubernetes' errors have them."""
    return ",".join(f"{name}={written(name, amount)}" for name, amount in sorted(amounts.items()))


def written(name: str, amount: Fraction) -> str:
    """Return an amount as a quantity, of bytes with the suffixes of powers of two where it has one."""
    if (name.endswith(_IN_BYTES) or _HUGE in name) and amount % 1024 == 0:
        return format_binary_quantity(int(amount))
    return format_quantity(amount)
