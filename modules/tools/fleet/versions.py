"""Which edgecore a cloudcore supports: of its own minor version, or of the one before (docs/install.md)."""

import re
from typing import Final

OLDER: Final = 1
"""Minor versions that an edgecore may be older than its cloudcore; it must not be newer."""
_OF_NODE: Final = re.compile(r"-edgecore-(\d{1,4})\.(\d{1,4})\.")
_OWN: Final = re.compile(r"(\d{1,4})\.(\d{1,4})\.")


def skew_words(kubelet_version: str, own: str) -> str:
    """Return what is wrong with a node's version, or "".

    Args:
        kubelet_version: of the node, such as `v1.32.10-edgecore-0.3.0`. Other agents, KubeEdge's for instance, have no
            number that could be compared.
        own: the version of cloudcore; "" compares nothing.
    """
    node, cloud = _OF_NODE.search(kubelet_version), _OWN.match(own)
    if node is None or cloud is None:
        return ""
    (major, minor), (own_major, own_minor) = (tuple(map(int, each.groups())) for each in (node, cloud))
    if (major, minor) > (own_major, own_minor):
        return f"newer than this cloudcore, {own}"
    if major < own_major or minor < own_minor - OLDER:
        return f"more than {OLDER} minor version older than this cloudcore, {own}"
    return ""
