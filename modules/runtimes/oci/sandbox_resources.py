"""The resources of a sandbox outside its directory: namespaces, its attachment to the pod network, and /dev/shm."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from beehive.printable import printable
from modules.runtimes.engine.errors import RequestRefusedError
from modules.runtimes.engine.model import Sandbox
from modules.runtimes.engine.records import PodAddresses, SandboxId
from modules.runtimes.oci.network.namespaces import PodNamespaces
from modules.runtimes.oci.network.pod_network import NetworkStatus, PodNetwork
from modules.runtimes.oci.network.rule_watch import AttachedSandbox
from modules.runtimes.oci.sandbox_files import SHM_BYTES, write_sandbox_files
from modules.runtimes.oci.users import user_mapping
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

_UNCONFINED: Final = (
    "an earlier edgecore has started the first process of pod %s (shareProcessNamespace) with the machine's files and "
    "rights; delete the pod, so that its successor is isolated"
)


class SandboxResources:
    """The manager of the resources of sandboxes, which makes and releases them.

    Args:
        namespaces: of all sandboxes.
        network: of pods that do not use the machine's.
    """

    def __init__(self, namespaces: PodNamespaces, network: PodNetwork) -> None:
        self._namespaces = namespaces
        self._network = network

    def make(self, sandbox: Sandbox) -> PodAddresses:
        """Make namespaces, network and files of a sandbox, and return its addresses; none on the machine's network.

        After a failure `release` removes the parts that were made. Raises RequestRefusedError, OSError.
        """
        config = sandbox.config
        options = config.linux.security_context.namespace_options
        own_network, own_ipc = options.network != cri.NODE, options.ipc != cri.NODE
        write_sandbox_files(sandbox)
        pinned = self._namespaces.pin(
            sandbox.id,
            network=own_network,
            ipc=own_ipc,
            uts=own_network,
            hostname=config.hostname if own_network else "",
            sysctls=config.linux.sysctls,
            users=user_mapping(config),
        )
        if own_ipc:
            self._namespaces.shm(sandbox.id, SHM_BYTES)
        if pinned.network is None:
            return PodAddresses("")
        return self._network.attach(sandbox.id, sandbox.directory, pinned.network, config)

    def release(self, sandbox: Sandbox) -> None:
        """Detach a sandbox from the network and remove its namespaces. May be repeated. Raises RequestRefusedError."""
        pinned = self._namespaces.pinned(sandbox.id)
        self._network.detach(sandbox.id, sandbox.directory, pinned.network if pinned else None)
        self._namespaces.unpin(sandbox.id)

    def collect(self, sandboxes: list[Sandbox]) -> None:
        """Remove resources that belong to no sandbox, and resources of sandboxes that are not ready; at a start. One
        that has lost its namespaces, as in a container that was started again, is ready no more: its pod gets another.
        """
        for sandbox in sandboxes:
            if sandbox.record.stopped or (self._namespaces.pinned(sandbox.id) is None and sandbox.mark_stopped()):
                try:
                    self.release(sandbox)
                except (RequestRefusedError, OSError) as error:
                    _log.warning("%s; StopPodSandbox tries again", error)
        alive = {str(sandbox.id) for sandbox in sandboxes}
        for lost in self._namespaces.sandboxes() - alive:
            self._namespaces.unpin(lost)
        self._network.collect(alive)
        unconfined = self._namespaces.unconfined()
        ready = [sandbox for sandbox in sandboxes if not sandbox.record.stopped]
        for each in ready:
            if each.id in unconfined:
                metadata = each.config.metadata
                _log.warning(_UNCONFINED, printable(f"{metadata.namespace}/{metadata.name}"))
        self._network.watch({each.id: AttachedSandbox(each.directory, self._netns(each.id)) for each in ready})

    def _netns(self, sandbox_id: SandboxId) -> Callable[[], Path | None]:
        def network() -> Path | None:
            pinned = self._namespaces.pinned(sandbox_id)
            return pinned.network if pinned else None

        return network

    def network_status(self) -> NetworkStatus:
        """Return whether sandboxes can have a network of their own now."""
        return self._network.status()
