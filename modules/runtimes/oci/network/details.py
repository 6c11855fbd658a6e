"""The network of sandboxes in CRI's statuses."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modules.runtimes.engine.model import Sandbox
from modules.runtimes.oci.network.attachment import read_attachment
from modules.runtimes.oci.network.pod_network import NetworkStatus
from protos.cri.v1 import api_pb2 as cri


def network_condition(network: NetworkStatus) -> cri.RuntimeCondition:
    """Return the condition NetworkReady of a runtime."""
    return cri.RuntimeCondition(
        type="NetworkReady", status=network.ready, reason=network.reason, message=network.message
    )


def network_details(sandbox: Sandbox, namespaces: Mapping[str, Path | None]) -> dict[str, Any]:
    """Return what a verbose status says of a sandbox's network and namespaces.

    Args:
        sandbox: any.
        namespaces: files of those that are not the machine's, by their types in the OCI runtime specification.
    """
    try:
        attachment = read_attachment(sandbox.directory)
    except (OSError, ValueError):  # damaged: the sandbox is detached without it
        attachment = None
    found = [{"type": kind, "path": str(path)} for kind, path in namespaces.items() if path is not None]
    result = {"cniResult": attachment.result} if attachment is not None else {}
    return {**result, "runtimeSpec": {"linux": {"namespaces": found}}}
