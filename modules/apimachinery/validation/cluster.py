"""The rules of Nodes, Namespaces, Leases and Events."""

from collections.abc import Mapping
from typing import Any, Final

from modules.apimachinery.ip_addresses import read_network
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.causes import Causes, forbidden, invalid, required
from modules.apimachinery.validation.labels import label_key, taints
from modules.apimachinery.validation.metadata import finalizers
from modules.apimachinery.validation.resources import amounts
from modules.apimachinery.validation.rules import Fields, Rule, at_least, needed, non_negative, pointer

_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def _cidrs(value: Any, path: str, found: Causes) -> None:
    versions = list[int]()
    for index, text in enumerate(value):
        try:
            versions.append(read_network(text).version)
        except ValueError:
            found.append(invalid(f"{path}[{index}]", text, _CIDR))
    if len(versions) > len(set(versions)):
        found.append(invalid(path, value, "may specify no more than one CIDR for each IP family"))


def _taints(obj: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check a Node's taints, which Kubernetes tells below its metadata."""
    taints((obj.get("spec") or {}).get("taints") or (), f"{path}.metadata.taints", found)


node = Fields(
    {
        "spec": Fields({"podCIDRs": _cidrs}),
        "status": Fields({"capacity": amounts, "allocatable": amounts}),
    },
    _taints,
)


def node_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that a Node keeps its networks and its provider's name, once it has them."""
    wanted, before = new.get("spec") or {}, live.get("spec") or {}
    for field, told, name in (("podCIDRs", "podCIDRs", "podCIDR"), ("providerID", "providerID", "providerID")):
        if before.get(field) and wanted.get(field) != before[field]:
            why = f'node updates may not change {name} except from "" to valid'
            found.append(forbidden(f"spec.{told}", why))


namespace = Fields({"spec": Fields({"finalizers": finalizers})})
lease = Fields(
    {
        "spec": Fields(
            {
                "leaseDurationSeconds": pointer(at_least(1, "must be greater than 0")),
                "leaseTransitions": pointer(non_negative),
            }
        )
    }
)


def event(obj: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check that an Event is in the namespace of its object, or in `default` for a cluster-scoped one. One of the newer
    form, with an `eventTime`, needs more fields.
    """
    about = (obj.get("involvedObject") or {}).get("namespace") or ""
    namespace_of_event = obj["metadata"].get("namespace") or "default"
    if obj.get("eventTime"):
        is_elsewhere = not about and namespace_of_event not in ("default", "kube-system")
        _EVENT_WITH_TIME(obj, path, found)
    else:
        is_elsewhere = about != namespace_of_event and bool(about or namespace_of_event != "default")
    if is_elsewhere:
        found.append(invalid(f"{path}.involvedObject.namespace", about, "does not match event.namespace"))


def _at_most(most: int) -> Rule:
    def rule(value: str, path: str, found: Causes) -> None:
        if len(value) > most:
            found.append(invalid(path, "", f"can have at most {most} characters"))

    return rule


def _reporter(value: Mapping[str, Any], path: str, found: Causes) -> None:
    if name := value.get("reportingComponent"):
        label_key(name, f"{path}.reportingController", found)
    else:
        found.append(required(f"{path}.reportingController"))


_WORDS: Final = _at_most(128)
_EVENT_WITH_TIME: Final = Fields(
    {
        "reportingInstance": needed(_WORDS),
        "action": needed(_WORDS),
        "reason": needed(_WORDS),
        "message": _at_most(1024),
    },
    _reporter,
)
