"""The rules of amounts that containers, pods and claims ask for."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from modules.apimachinery.types.quantity import Quantity, QuantityError, parse_quantity
from modules.apimachinery.validation.causes import Causes, forbidden, invalid, required, unsupported
from modules.apimachinery.validation.names import faults_of_label_key
from modules.apimachinery.validation.rules import Rule, quantity

_OF_CONTAINERS: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
_OF_PODS: Final = ("cpu", "memory")
_HUGE: Final = "hugepages-"
_STANDARD: Final = _OF_CONTAINERS | {
    "storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage", "requests.storage", "limits.cpu",
    "limits.memory", "limits.ephemeral-storage", "pods", "services", "replicationcontrollers", "resourcequotas",
    "secrets", "configmaps", "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
}  # fmt: skip
"""The names without a domain that are standard anywhere (helper.IsStandardResourceName)."""
_LONGEST_KEY: Final = 253


def amounts(value: Mapping[str, Quantity], path: str, found: Causes) -> None:
    """Check that amounts can be read and are not negative."""
    for name, amount in value.items():
        quantity(amount, f"{path}[{name[:_LONGEST_KEY]}]", found)


def amounts_of_resources(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check the amounts of the limits and requests of a container or a pod."""
    for field, given in (value.get("resources") or {}).items():
        if field in ("limits", "requests"):
            amounts(given, f"{path}.resources.{field}", found)


def amount_of(value: Any) -> Fraction | None:
    """Return an amount; None for an unreadable one, which has its own rule."""
    try:
        return parse_quantity(value)
    except QuantityError:
        return None


def resource_name(name: str, path: str, found: Causes) -> bool:
    """Check the name of a resource; return whether it is fine (validateResourceName)."""
    faults = list(faults_of_label_key(name))
    for why in faults:
        found.append(invalid(path, name, why))
    if not faults and "/" not in name and name not in _STANDARD and not name.startswith(_HUGE):
        found.append(invalid(path, name, "must be a standard resource type or fully qualified"))
        return False
    return not faults


def is_native(name: str) -> bool:
    """Return whether a resource is one of Kubernetes' own: amounts of others are whole numbers (IsNativeResource)."""
    return "/" not in name or "kubernetes.io/" in name


def container_resource(name: str, path: str, found: Causes) -> None:
    """Check the name of a resource of containers (validateContainerResourceName)."""
    resource_name(name, path, found)
    if "/" not in name:
        if name not in _OF_CONTAINERS and not name.startswith(_HUGE):
            found.append(invalid(path, name, "must be a standard resource for containers"))
    elif not is_native(name) and (
        name.startswith("requests.") or any(True for _ in faults_of_label_key(f"requests.{name}"))
    ):
        found.append(invalid(path, name, "doesn't follow extended resource name standard"))


def _pod_resource(name: str, path: str, found: Causes) -> None:
    if resource_name(name, path, found) and name not in _OF_PODS and not name.startswith(_HUGE):
        found.append(unsupported(path, name, _OF_PODS))


def may_overcommit(name: str) -> bool:
    """Return whether a container may ask for less of a resource than its limit."""
    return is_native(name) and not name.startswith(_HUGE)


def _one_amount(name: str, amount: Any, path: str, found: Causes) -> None:
    quantity(amount, path, found)
    value = amount_of(amount)
    if value is None:
        return
    if not is_native(name) and value.denominator != 1:
        found.append(invalid(path, str(amount), "must be an integer"))
    if name.startswith(_HUGE):
        page = amount_of(name.removeprefix(_HUGE))
        if page is None or page <= 0 or value <= 0 or value % page != 0:
            found.append(invalid(path, str(amount), f"{amount} is not positive integer multiple of {name}"))


def _request(name: str, amount: Any, limits: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check a request against its limit, at the path of all requests, as an API server does."""
    if name not in limits:
        if not may_overcommit(name):
            why = "Limit must be set for non overcommitable resources"
            found.append(required(f"{path.removesuffix('requests')}limits", why))
        return
    wanted, limit = amount_of(amount), amount_of(limits[name])
    if wanted is None or limit is None:
        return
    if wanted != limit and not may_overcommit(name):
        found.append(invalid(path, str(amount), f"must be equal to {name} limit of {limits[name]}"))
    elif wanted > limit:
        found.append(invalid(path, str(amount), f"must be less than or equal to {name} limit of {limits[name]}"))


def _requirements(of_name: Any) -> Rule:
    def rule(value: Mapping[str, Any], path: str, found: Causes) -> None:
        limits, requests = value.get("limits") or {}, value.get("requests") or {}
        for field, given in (("limits", limits), ("requests", requests)):
            for name, amount in given.items():
                where = f"{path}.{field}[{name[:_LONGEST_KEY]}]"
                of_name(name, where, found)
                _one_amount(name, amount, where, found)
                if field == "requests":
                    _request(name, amount, limits, f"{path}.requests", found)
        names = {*limits, *requests}
        if any(name.startswith(_HUGE) for name in names) and not names & {"cpu", "memory"}:
            found.append(forbidden(path, "HugePages require cpu or memory"))

    return rule


container_requirements = _requirements(container_resource)
pod_requirements = _requirements(_pod_resource)
