"""The CRI operations on pod sandboxes of the OCI runtime: namespaces, network and files, without a process."""

import msgspec

from beehive.clock import Clock
from modules.runtimes.cri_server.announcer import Announcer
from modules.runtimes.cri_server.container_operations import ContainerOperations
from modules.runtimes.cri_server.model import Sandbox
from modules.runtimes.cri_server.records import SandboxId, SandboxRecord
from modules.runtimes.cri_server.registry import Registry
from modules.runtimes.cri_server.sandboxes import SandboxOperations
from modules.runtimes.cri_server.state import RECORD, StateDirectory, write_record
from modules.runtimes.oci.model import OciContainer
from modules.runtimes.oci.sandbox_resources import SandboxResources
from modules.runtimes.oci.spec import Machine, check_sandbox
from protos.cri.v1 import api_pb2 as cri


class OciSandboxes(SandboxOperations[OciContainer]):
    """Runs, stops and removes pod sandboxes."""

    def __init__(
        self,
        state: StateDirectory,
        registry: Registry[Sandbox, OciContainer],
        containers: ContainerOperations[OciContainer],
        announcer: Announcer,
        clock: Clock,
        machine: Machine,
        resources: SandboxResources,
    ) -> None:
        super().__init__(state, registry, containers, announcer, clock)
        self._machine = machine
        self._resources = resources

    def run(self, request: cri.RunPodSandboxRequest) -> SandboxId:
        """Make a sandbox: its namespaces, network and files. Raises RequestRefusedError."""
        check_sandbox(request, self._machine)
        return super().run(request)

    def _first_record(self) -> SandboxRecord:
        """Return a record that is not ready: a crash before the sandbox is set up leaves one that is removed later."""
        return SandboxRecord(self._clock.now_ns(), "", self._boot_id, stopped=True)

    def _set_up(self, sandbox: Sandbox) -> None:
        addresses = self._resources.make(sandbox)
        changes = {"ip": addresses.ip, "additional_ips": addresses.additional, "stopped": False}
        record = msgspec.structs.replace(sandbox.record, **changes)
        write_record(sandbox.directory / RECORD, record)
        sandbox.record = record

    def _release(self, sandbox: Sandbox) -> None:
        self._resources.release(sandbox)
