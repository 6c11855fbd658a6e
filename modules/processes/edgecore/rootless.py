"""The OCI runtime of an ordinary user, as the processes of edgecore use it."""

from __future__ import annotations

import ipaddress
import os
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from beehive import Clock
    from edged.probes.network import Network
    from modules.edge.edgemesh.plane import Within
    from modules.processes.edgecore.config import EdgeCoreConfig

_RECORD = "oci-namespaces"
"""File in the root directory: the secret name of the node's namespaces."""


def is_rootless(config: EdgeCoreConfig) -> bool:
    """Return whether this user's node isolates containers without root."""
    from beehive.node_namespaces import is_machine_root  # noqa: PLC0415 - it loads the bus

    return config.uses_oci_runtime and not is_machine_root()


def namespaces_record(config: EdgeCoreConfig) -> Path:
    """Return the file with the secret name of the node's namespaces."""
    return config.modules.edged.root_directory / _RECORD


def enter_namespaces(config: EdgeCoreConfig) -> None:
    """Enter the namespaces of a node with the OCI runtime, unless this is root; before there is a second thread.

    Raises EdgedError.
    """
    if not config.uses_oci_runtime or os.geteuid() == 0:
        return
    from beehive.files.advice import advice  # noqa: PLC0415 - other nodes do without
    from edged.errors import EdgedError  # noqa: PLC0415
    from modules.runtimes.engine.errors import ContainerRuntimeError  # noqa: PLC0415
    from modules.runtimes.oci.rootless.entering import enter  # noqa: PLC0415

    record = namespaces_record(config)
    try:
        enter(record)
    except ContainerRuntimeError as error:
        raise EdgedError(error.attempt, error.reason, error.hint) from error
    except OSError as error:
        hint = f"{advice(error)}; modules.edged.rootDirectory, or --root, names another"
        raise EdgedError("enter the namespaces of this node", str(record), hint) from error


def leave_no_namespaces(config: EdgeCoreConfig) -> None:
    """End what keeps the namespaces of this process, whose pods are removed; the next start makes others."""
    from beehive.node_namespaces import namespaces_id  # noqa: PLC0415 - it loads the bus
    from modules.runtimes.oci.rootless.entering import SCOPE, end_namespaces  # noqa: PLC0415 - other nodes do without

    if not namespaces_id():
        return

    end_namespaces()
    record = namespaces_record(config)
    for each in (record, record.with_name(SCOPE)):
        each.unlink(missing_ok=True)


def network_of_pods(config: EdgeCoreConfig) -> Within | None:
    """Return what calls functions in the network of the pods; None where that is the machine's."""
    if not is_rootless(config):
        return None
    from modules.runtimes.oci.rootless.node_network import NodeNetwork  # noqa: PLC0415 - other nodes do without

    return NodeNetwork().within


def probing_network(config: EdgeCoreConfig, clock: Clock) -> Network | None:
    """Return the connections of probes and hooks to pods; None where the machine's network reaches them.

    Pods of plain processes are on the machine's network themselves, whatever address they had when they began.
    """
    within = network_of_pods(config)
    if within is None and not config.uses_process_runtime:
        return None
    from edged.probes.sockets import SocketNetwork  # noqa: PLC0415

    if within is None:
        return SocketNetwork(clock, isolates=False)
    from beehive.sockets import dialling  # noqa: PLC0415
    from modules.runtimes.oci.network.default_network import POD_CIDR  # noqa: PLC0415

    ranges = config.modules.edged.tailored_kubelet_config.pod_cidr or (POD_CIDR,)
    pods = [ipaddress.ip_network(each) for each in ranges]

    def connect(host: str, port: int, clock: Clock, seconds: float) -> socket.socket:
        dial = partial(dialling.connect, host, port, clock, seconds)
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return dial()
        return within(dial) if any(address in each for each in pods) else dial()

    return SocketNetwork(clock, connect)
