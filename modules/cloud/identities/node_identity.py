"""The node names in certificates, in Kubernetes' form.

KubeEdge also accepts the pair O=KubeEdge, CN=kubeedge.io of its first releases for any node. This authority has never
signed such a certificate, so it is not accepted here.
"""

import re
from collections.abc import Mapping
from typing import Any

NODES_ORGANIZATION = "system:nodes"
_NODE_PREFIX = "system:node:"
_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def is_node_name(name: str) -> bool:
    """Return whether a text is a valid node name: a DNS subdomain of at most 253 characters."""
    return _NODE_NAME.fullmatch(name) is not None


def common_name_of(node: str) -> str:
    """Return the common name in a node's certificate."""
    return _NODE_PREFIX + node


def node_in(certificate: Mapping[str, Any] | None) -> str:
    """Return the node of a verified client certificate, or "".

    Args:
        certificate: in the form of `ssl.SSLSocket.getpeercert`.
    """
    if not certificate:
        return ""
    subject = [pair for names in certificate.get("subject", ()) for pair in names]
    organizations = [value for key, value in subject if key == "organizationName"]
    common_names = [value for key, value in subject if key == "commonName"]
    if organizations[:1] != [NODES_ORGANIZATION] or len(common_names) != 1:
        return ""
    node = str(common_names[0]).removeprefix(_NODE_PREFIX)
    return node if is_node_name(node) and common_names == [common_name_of(node)] else ""
