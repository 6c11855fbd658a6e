"""The rules of Ingresses, IngressClasses and NetworkPolicies (Kubernetes 1.32, `networking/validation`)."""

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Final

from modules.apimachinery.ip_addresses import read_address, read_network
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.causes import Causes, forbidden, invalid, required, too_long, unsupported
from modules.apimachinery.validation.labels import label_selector
from modules.apimachinery.validation.metadata import immutable, path_segment
from modules.apimachinery.validation.names import (
    faults_of_dns_1035_label,
    faults_of_label,
    faults_of_port_name,
    faults_of_subdomain,
    faults_of_wildcard,
)
from modules.apimachinery.validation.rules import (
    Each,
    Fields,
    address,
    named,
    needed,
    network,
    never,
    one_of,
    pointer,
    port_number,
    port_or_name,
)

_CLASS: Final = "kubernetes.io/ingress.class"
"""The older annotation with the name of the class."""
_LONGEST_CONTROLLER: Final = 250
_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_READ_PATH: Final = re.compile(_PATH)
_WHOLE: Final = ("Exact", "Prefix")
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_FORBIDDEN: Final = ("//", "/./", "/../", "%2f", "%2F")
_ENDS: Final = ("/..", "/.")
_SCOPES: Final = ("Cluster", "Namespace")
_subdomain = named(faults_of_subdomain)


def _is_address(text: str) -> bool:
    try:
        return bool(read_address(text))
    except ValueError:
        return False


def _host(value: str, path: str, found: Causes) -> None:
    """Check the name of a host, or a wildcard."""
    for why in faults_of_wildcard(value) if "*" in value else faults_of_subdomain(value):
        found.append(invalid(path, value, why))


def _named_host(value: str, path: str, found: Causes) -> None:
    """Check the name of a host, which is no address."""
    if _is_address(value):
        found.append(invalid(path, value, "must be a DNS name, not an IP address"))
    _host(value, path, found)


_REFERENCE: Final = Fields(
    {
        "apiGroup": pointer(_subdomain),
        "kind": needed(path_segment, "kind is required"),
        "name": needed(path_segment, "name is required"),
    }
)


def _port(value: Mapping[str, Any], path: str, found: Causes) -> None:
    name, number = value.get("name") or "", value.get("number") or 0
    if name and number:
        found.append(invalid(path, "", "cannot set both port name & port number"))
    elif name:
        for why in faults_of_port_name(name):
            found.append(invalid(f"{path}.service.port.name", name, why))
    elif number:
        port_number(number, f"{path}.service.port.number", found)
    else:
        found.append(required(path, "port name or number is required"))


_SERVICE: Final = Fields({"name": needed(named(faults_of_dns_1035_label))})


def _backend(value: Mapping[str, Any], path: str, found: Causes) -> None:
    service, resource = value.get("service"), value.get("resource")
    if service is not None and resource is not None:
        found.append(invalid(path, "", "cannot set both resource and service backends"))
    elif resource is not None:
        _REFERENCE(resource, f"{path}.resource", found)
    elif service is not None:
        _SERVICE(service, f"{path}.service", found)
        _port(service.get("port") or {}, path, found)
    else:
        found.append(invalid(path, "", "resource or service backend is required"))


def _path(value: Mapping[str, Any], path: str, found: Causes) -> None:
    kind, text, where = value.get("pathType"), value.get("path") or "", f"{path}.path"
    if kind is None:
        found.append(required(f"{path}.pathType", "pathType must be specified"))
        return
    if kind not in _PATH_TYPES:
        found.append(unsupported(f"{path}.pathType", kind, _PATH_TYPES))
    elif not text.startswith("/") and (text or kind in _WHOLE):
        found.append(invalid(where, text, "must be an absolute path"))
    for part in _FORBIDDEN if kind in _WHOLE else ():
        if part in text:
            found.append(invalid(where, text, f"must not contain '{part}'"))
    for end in _ENDS if kind in _WHOLE else ():
        if text.endswith(end):
            found.append(invalid(where, text, f"cannot end with '{end}'"))
    _backend(value.get("backend") or {}, f"{path}.backend", found)


def _spec(value: Mapping[str, Any], path: str, found: Causes) -> None:
    if not value.get("rules") and value.get("defaultBackend") is None:
        found.append(invalid(path, [], "either `defaultBackend` or `rules` must be specified"))
    _SPEC(value, path, found)


_HTTP: Final = Fields({"paths": needed(Each(_path))})
_SPEC: Final = Fields(
    {
        "defaultBackend": pointer(_backend),
        "rules": Each(Fields({"host": _named_host, "http": _HTTP})),
        "tls": Each(Fields({"hosts": Each(_host), "secretName": _subdomain})),
        "ingressClassName": pointer(_subdomain),
    }
)


def ingress(obj: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check an Ingress."""
    _spec(obj.get("spec") or {}, f"{path}.spec", found)


def ingress_creation(obj: JsonObject, found: Causes) -> None:
    """Check that the older annotation of a new Ingress names the class that its spec names."""
    given = (obj["metadata"].get("annotations") or {}).get(_CLASS)
    of_spec = (obj.get("spec") or {}).get("ingressClassName")
    if None not in (given, of_spec) and given != of_spec:
        why = "must match `ingressClassName` when both are specified"
        found.append(invalid(f"annotations.{_CLASS}", given, why))


_ADDRESSES: Final = Fields({"ingress": Each(Fields({"ip": address, "hostname": _named_host}))})


def ingress_status(new: JsonObject, live: JsonObject, found: Causes) -> None:  # noqa: ARG001 - a rule of statuses
    """Check the addresses in the status of an Ingress."""
    _ADDRESSES((new.get("status") or {}).get("loadBalancer") or {}, "status.loadBalancer", found)


def _mode(value: Mapping[str, Any], path: str, found: Causes) -> None:
    if mode := value.get("ipMode"):
        check = one_of("Proxy", "VIP") if value.get("ip") else never("may not be specified when `ip` is not set")
        check(mode, f"{path}.ipMode", found)


_BALANCED: Final = Each(Fields({"ip": address, "hostname": _named_host}, _mode))


def service_status(new: JsonObject, live: JsonObject, found: Causes) -> None:  # noqa: ARG001 - a rule of statuses
    """Check the addresses of a load balancer in the status of a Service."""
    is_balanced = (new.get("spec") or {}).get("type") == "LoadBalancer"
    check = _BALANCED if is_balanced else never("may only be used when `spec.type` is 'LoadBalancer'")
    if given := ((new.get("status") or {}).get("loadBalancer") or {}).get("ingress"):
        check(given, "status.loadBalancer.ingress", found)


def _controller(value: str, path: str, found: Causes) -> None:
    if len(value) > _LONGEST_CONTROLLER:
        found.append(too_long(path, _LONGEST_CONTROLLER))
    host, _, rest = value.partition("/")
    if not host or not rest:
        found.append(invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")'))
        return
    _subdomain(host, path, found)
    if not _READ_PATH.fullmatch(rest):
        found.append(invalid(path, rest, f"Invalid path (regex used for validation is '{_PATH}')"))


def _place(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check that parameters in a namespace name it."""
    scope, namespace = value.get("scope"), value.get("namespace")
    if scope == "Namespace" and namespace is None:
        found.append(required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'"))
    elif scope == "Namespace":
        named(faults_of_label)(namespace, f"{path}.namespace", found)
    elif scope == "Cluster" and namespace is not None:
        found.append(forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))


_PARAMETERS: Final = Fields({**_REFERENCE.rows, "scope": needed(one_of(*_SCOPES))}, _place)
ingress_class = Fields({"spec": needed(Fields({"controller": needed(_controller), "parameters": _PARAMETERS}))})


def ingress_class_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that an IngressClass keeps its controller."""
    wanted, before = (each.get("spec") or {} for each in (new, live))
    immutable(wanted.get("controller"), before.get("controller"), "spec.controller", found)


_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_POLICY_TYPES: Final = ("Ingress", "Egress")
_WITHOUT_NUMBER: Final = "may not be specified when `port` is"


def _ports(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check a port, or the first and the last one of a range."""
    port, last, end = value.get("port"), value.get("endPort"), f"{path}.endPort"
    if last is not None and not isinstance(port, int):
        found.append(invalid(end, last, f"{_WITHOUT_NUMBER} {'not specified' if port is None else 'non-numeric'}"))
    if port is not None:
        port_or_name(port, f"{path}.port", found)
    if last is not None and isinstance(port, int):
        if last < port:
            found.append(invalid(end, port, "must be greater than or equal to `port`"))
        port_number(last, end, found)


def _read_network(text: str, path: str, found: Causes) -> IPv4Network | IPv6Network | None:
    """Return a network; None, and a cause, if it is none."""
    network(text, path, found)
    try:
        return read_network(text)
    except ValueError:
        return None


def _block(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check a network, and the parts of it that are left out."""
    if not value.get("cidr"):
        found.append(required(f"{path}.cidr"))
        return
    whole = _read_network(value["cidr"], f"{path}.cidr", found)
    for index, text in enumerate(value.get("except") or () if whole else ()):
        part = _read_network(text, f"{path}.except[{index}]", found)
        if part and whole and (part.network_address not in whole or whole.prefixlen >= part.prefixlen):
            found.append(invalid(f"{path}.except[{index}]", text, "must be a strict subset of `cidr`"))


def _peers(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check that a peer is selected by labels, or is a network."""
    is_selected = any(value.get(name) is not None for name in ("podSelector", "namespaceSelector"))
    if value.get("ipBlock") is None and not is_selected:
        found.append(required(path, "must specify a peer"))
    elif value.get("ipBlock") is not None and is_selected:
        found.append(forbidden(path, "may not specify both ipBlock and another peer"))


_PORTS: Final = Each(Fields({"protocol": pointer(one_of(*_PROTOCOLS))}, _ports))
_PEERS: Final = Each(
    Fields({"podSelector": label_selector, "namespaceSelector": label_selector, "ipBlock": pointer(_block)}, _peers)
)


def _policy_types(value: Sequence[str], path: str, found: Causes) -> None:
    if len(value) > len(_POLICY_TYPES):
        found.append(invalid(path, value, "may not specify more than two policyTypes"))
    else:
        Each(one_of(*_POLICY_TYPES))(value, path, found)


network_policy = Fields(
    {
        "spec": Fields(
            {
                "podSelector": label_selector,
                "ingress": Each(Fields({"ports": _PORTS, "from": _PEERS})),
                "egress": Each(Fields({"ports": _PORTS, "to": _PEERS})),
                "policyTypes": _policy_types,
            }
        )
    }
)
"""The rules of a NetworkPolicy."""
