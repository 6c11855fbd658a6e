"""The common base of all Kubernetes types in this package.

The types are msgspec structs: frozen, because actors share desired state; without garbage-collector tracking, because
they form trees; and lenient towards unknown keys, like Go's decoder. Encoding follows Go's `omitempty`: a field with a
plain default is left out when it has that value; a field that Go always writes has a `default_factory` (which msgspec
never leaves out for scalars and structs).
"""

from msgspec import Struct

_ACRONYMS = {
    "api": "API",
    "cidr": "CIDR",
    "cidrs": "CIDRs",
    "fqdn": "FQDN",
    "id": "ID",
    "ip": "IP",
    "ipc": "IPC",
    "ips": "IPs",
    "pid": "PID",
    "uid": "UID",
    "uuid": "UUID",
}


def kube_name(attribute: str) -> str:
    """Return the JSON key of an attribute: camel case with Kubernetes' acronyms (`pod_ips` → `podIPs`, `uid` →
    `uid`).
    """
    first, *rest = attribute.split("_")
    return first + "".join(_ACRONYMS.get(word, word.capitalize()) for word in rest)


class KubeStruct(Struct, frozen=True, omit_defaults=True, gc=False, rename=kube_name):
    """Base of the Kubernetes types: immutable, Kubernetes' JSON names."""
