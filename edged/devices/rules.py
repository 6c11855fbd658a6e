"""Which device plug-ins are taken, and which resources of a container are devices."""

import re
from collections.abc import Iterable
from pathlib import Path

from edged.api import Container, parse_quantity
from edged.devices.errors import RegistrationError

VERSION = "v1beta1"
"""Of the device plug-in API; the only one that a kubelet takes."""
SOCKET = "kubelet.sock"
"""On which plug-ins register: a name in the directory that the sockets of plug-ins are in, too."""
CHECKPOINT = "kubelet_internal_checkpoint"
"""The file beside it, with what was given to whom."""
_NOT_SOCKETS = frozenset({"", ".", "..", SOCKET, CHECKPOINT})
_LONGEST_PATH = 107
_LONGEST_PREFIX, _LONGEST_NAME = 253, 63
_REGISTER = "register a device plug-in"
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_extended_resource(name: str) -> bool:
    """Whether a resource is neither Kubernetes' own nor a quota's (Kubernetes' IsExtendedResourceName).

    It has the form `domain/name`, and the domain is not of `kubernetes.io`.
    """
    domain, slash, kind = name.partition("/")
    if not slash or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    prefix = f"requests.{domain}"  # as quotas have it, which is what must be a valid name
    valid_prefix = len(prefix) <= _LONGEST_PREFIX and _DOMAIN.fullmatch(prefix) is not None
    return valid_prefix and len(kind) <= _LONGEST_NAME and _NAME.fullmatch(kind) is not None


def wanted_devices(container: Container) -> dict[str, int]:
    """How many devices of each extended resource a container is to have, sorted by name. Its limits count."""
    limits = {name: parse_quantity(quantity) for name, quantity in sorted(container.resources.limits.items())}
    return {name: int(amount) for name, amount in limits.items() if is_extended_resource(name) and amount >= 1}


def check_resource(resource: str, versions: Iterable[str]) -> None:
    """Raises RegistrationError with a kubelet's words."""
    versions = tuple(versions)
    if VERSION not in versions:
        said = ", ".join(versions) or "none"
        hint = f"requested API version {said!r} is not supported; supported version is {VERSION!r}"
        raise RegistrationError(_REGISTER, resource, hint)
    if not is_extended_resource(resource):
        hint = f"the ResourceName {resource!r} is invalid: it must be as vendor-domain/resource"
        raise RegistrationError(_REGISTER, resource, hint)


def endpoint_in(directory: Path, endpoint: str, resource: str) -> Path:
    """The socket that a plug-in has named: one in the directory. Raises RegistrationError."""
    path = directory / endpoint
    if endpoint in _NOT_SOCKETS or "/" in endpoint or "\0" in endpoint:
        hint = f"the endpoint {endpoint!r} must be the name of a socket in {directory}"
        raise RegistrationError(_REGISTER, resource, hint)
    if len(bytes(path)) > _LONGEST_PATH:
        raise RegistrationError(_REGISTER, resource, f"the path of its socket has more than {_LONGEST_PATH} bytes")
    return path
