"""The downward API: a pod's own fields and resources, as variables or files."""

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from msgspec import Struct

from edged.errors import FieldReferenceError
from modules.apimachinery.types import (
    Container,
    ObjectFieldSelector,
    Pod,
    Quantity,
    ResourceFieldSelector,
    parse_quantity,
)

_DEFAULTED = ("cpu", "memory", "ephemeral-storage")
"""The resources of which a missing limit is the node's allocatable amount."""
_ESCAPES = {
    '"': r"\"",
    "\\": r"\\",
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
}
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")


class DownwardView(Struct, frozen=True, gc=False):
    """Values from outside the pod's definition: addresses (primary first), and the node's allocatable resources, which
    replace a container's missing limits.
    """

    pod_ips: tuple[str, ...] = ()
    host_ips: tuple[str, ...] = ()
    allocatable: Mapping[str, Quantity] | None = None


def field_value(pod: Pod, selector: ObjectFieldSelector, view: DownwardView) -> str:
    """Return the value of a fieldRef. Raises FieldReferenceError for a path that Kubernetes does not offer."""
    path = selector.field_path
    if (subscript := _SUBSCRIPT.fullmatch(path)) is not None:
        kind, key = subscript.groups()
        return (pod.metadata.labels if kind == "labels" else pod.metadata.annotations).get(key, "")
    value = _FIELDS.get(path)
    if value is None:
        raise FieldReferenceError("cannot resolve the fieldRef", repr(path), f"supported: {', '.join(_FIELDS)}")
    return value(pod, view)


def resource_value(pod: Pod, container: Container, selector: ResourceFieldSelector, view: DownwardView) -> str:
    """Return the value of a resourceFieldRef: a request or limit, divided by its divisor and rounded up to an integer.

    A limit that is missing or zero is the node's allocatable amount; a missing request is the limit, as the API server
    would have filled it in. Raises FieldReferenceError.
    """
    target = _container_named(pod, selector.container_name) or container
    kind, _, name = selector.resource.partition(".")
    if kind not in ("limits", "requests") or not name:
        raise FieldReferenceError(
            "cannot resolve the resourceFieldRef",
            repr(selector.resource),
            "a name such as limits.cpu or requests.memory is expected",
        )
    amount = _amount(target, kind, name, view)
    divisor = parse_quantity(selector.divisor) or Fraction(1)
    return str(-(-amount // divisor))


def _amount(container: Container, kind: str, name: str, view: DownwardView) -> Fraction:
    limits, requests = container.resources.limits, container.resources.requests
    if kind == "requests":
        return parse_quantity(requests.get(name, limits.get(name, 0)))
    allocatable = view.allocatable if view.allocatable is not None and name in _DEFAULTED else {}
    return parse_quantity(limits.get(name, 0)) or parse_quantity(allocatable.get(name, 0))


def _container_named(pod: Pod, name: str) -> Container | None:
    return next((c for c in pod.spec.init_containers + pod.spec.containers if c.name == name), None)


def _lines(values: Mapping[str, str]) -> str:
    """Return `key="value"` lines, sorted, quoted as Go quotes."""
    return "\n".join(f'{key}="{"".join(map(_escaped, values[key]))}"' for key in sorted(values))


def _escaped(char: str) -> str:
    if char.isprintable():
        return _ESCAPES.get(char, char)
    code = ord(char)
    width = "x{:02x}" if code < 0x20 or code == 0x7F else "u{:04x}" if code <= 0xFFFF else "U{:08x}"
    return _ESCAPES.get(char) or "\\" + width.format(code)


def _first(addresses: Sequence[str]) -> str:
    return addresses[0] if addresses else ""


_FIELDS: Mapping[str, Callable[[Pod, DownwardView], str]] = {
    "metadata.name": lambda pod, _: pod.metadata.name,
    "metadata.namespace": lambda pod, _: pod.metadata.namespace,
    "metadata.uid": lambda pod, _: pod.metadata.uid,
    "metadata.labels": lambda pod, _: _lines(pod.metadata.labels),
    "metadata.annotations": lambda pod, _: _lines(pod.metadata.annotations),
    "spec.nodeName": lambda pod, _: pod.spec.node_name,
    "spec.serviceAccountName": lambda pod, _: pod.spec.service_account_name,
    "status.hostIP": lambda _, view: _first(view.host_ips),
    "status.hostIPs": lambda _, view: ",".join(view.host_ips),
    "status.podIP": lambda _, view: _first(view.pod_ips),
    "status.podIPs": lambda _, view: ",".join(view.pod_ips),
}
