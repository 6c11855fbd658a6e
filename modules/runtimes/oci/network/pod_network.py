"""Attaches sandboxes to the machine's pod network, and detaches them, by CNI plug-ins."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from beehive import Clock
from beehive.on_failure import on_failure
from beehive.printable import printable
from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.engine.records import PodAddresses
from modules.runtimes.oci.network.announcements import announce
from modules.runtimes.oci.network.attachment import (
    Attachment,
    has_attachment,
    read_attachment,
    remove_attachment,
    write_attachment,
)
from modules.runtimes.oci.network.capabilities import OF_UNKNOWN, capability_arguments
from modules.runtimes.oci.network.configuration import (
    NetworkConfiguration,
    find_configuration,
    find_plugin,
    programs_of,
    read_configuration,
)
from modules.runtimes.oci.network.default_network import DefaultNetwork
from modules.runtimes.oci.network.errors import NetworkConfigurationError, PodNetworkError
from modules.runtimes.oci.network.host_ports import PORTMAP, check_host_ports
from modules.runtimes.oci.network.kernel import in_network_namespace
from modules.runtimes.oci.network.leases import leases_of
from modules.runtimes.oci.network.loopback_firewall import LoopbackFirewall
from modules.runtimes.oci.network.plugin import PluginChain, PluginRunner
from modules.runtimes.oci.network.results import addresses_of
from modules.runtimes.oci.network.rule_watch import AttachedSandbox, RuleWatch
from modules.runtimes.oci.network.sysctls import interface_sysctls, write_interface_sysctls
from modules.runtimes.oci.network.turns import Turns
from modules.runtimes.oci.programs import PLUG_INS
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

BINARY_DIRECTORIES: Final = PLUG_INS

NOT_READY: Final = "NetworkPluginNotReady"
"""Reason of the NetworkReady condition, as all runtimes have it."""
_BOOT_TIME: Final = b"btime "


class NetworkStatus(msgspec.Struct, frozen=True):
    """The condition NetworkReady."""

    ready: bool
    reason: str = ""
    message: str = ""

    @property
    def condition(self) -> cri.RuntimeCondition:
        """The condition in CRI's status of a runtime."""
        return cri.RuntimeCondition(type="NetworkReady", status=self.ready, reason=self.reason, message=self.message)


class PodNetwork:
    """The pod network of this machine.

    Args:
        configuration_directory: its first file by name describes the network; looked at before each use.
        binary_directories: of the plug-ins' programs.
        clock: for deadlines.
        default: the network while there is no file, or None.
        ranges: addresses for pods that the node's configuration demands, for plug-ins that can be told.
        owner: letters and digits that tell the sandboxes of this runtime from another agent's on the machine,
            which shares the default network; empty where this runtime is the only one.
        runner: runs a plug-in.
        namespace: network namespace of the bridge and the rules, which callers are in; None for the machine's.
    """

    def __init__(
        self,
        configuration_directory: Path,
        binary_directories: Sequence[Path],
        clock: Clock,
        *,
        default: DefaultNetwork | None = None,
        ranges: Sequence[str] = (),
        owner: str = "",
        runner: PluginRunner | None = None,
        namespace: Path | None = None,
    ) -> None:
        self._configurations = _Configurations(configuration_directory, default)
        self._binaries = tuple(binary_directories)
        self._default = default
        self._ranges = tuple(ranges)
        self._prefix = f"{owner}-" if owner else ""
        self._runner = runner or PluginRunner(clock)
        self._chain = PluginChain(self._binaries, self._runner)
        self._turns = Turns()
        self._loopback = LoopbackFirewall(clock)
        self._complaint = ""
        self._rules = RuleWatch(clock, default, self._loopback, self._repeat_ports, namespace)

    def close(self) -> None:
        """End attaching and detaching under way, and refuse more. Attachments that exist stay."""
        self._runner.close()
        self._rules.close()

    def status(self) -> NetworkStatus:
        """Return whether pods can be attached now, with advice if not."""
        try:
            network = self._configurations.current()
        except NetworkConfigurationError as error:
            return NetworkStatus(ready=False, reason=NOT_READY, message=str(error))
        missing = [kind for kind in programs_of(network) if find_plugin(kind, self._binaries) is None]
        if not missing:
            return NetworkStatus(ready=True)
        where = ", ".join(map(str, self._binaries))
        said = f"not in {where}: the CNI plug-ins {', '.join(missing)} (apt-get install containernetworking-plugins)"
        return NetworkStatus(ready=False, reason=NOT_READY, message=said)

    def attach(self, sandbox_id: str, directory: Path, netns: Path, config: cri.PodSandboxConfig) -> PodAddresses:
        """Attach a sandbox to the network; when that fails, it is detached again.

        Args:
            sandbox_id: of the sandbox.
            directory: of the sandbox; its attachment is stored there.
            netns: its network namespace.
            config: its host ports, bandwidth, DNS and sysctls of its interface.

        Raises:
            NetworkConfigurationError: there is no usable configuration.
            PodNetworkError: a plug-in failed; TryAgainLaterError if it asks for another attempt.
            BadRequestError: the pod asks for something impossible.
            WrongStateError: a program of the machine listens on a host port of the pod.
            OSError: the directory cannot be written.
        """
        with self._turns.to_attach(sandbox_id):
            network = self._configurations.current()
            self._prepare(network)
            demands = self._demands(sandbox_id, config)
            name = self._name(sandbox_id, network)
            attachment = Attachment(network, name, _arguments(sandbox_id, config), demands)
            check_host_ports(attachment)
            write_attachment(directory, attachment)
            with on_failure(lambda: self._undo(attachment, directory, netns)):
                result = self._chain.add(attachment, str(netns))
                addresses = _addresses(sandbox_id, result)
                attachment = Attachment(*_fields(attachment), result)
                write_attachment(directory, attachment)
                if self._default is not None and (sender := self._default.sender_of(attachment)) is not None:
                    self._default.senders.bind(sender)
                    announce(netns, sender.mac)
                if interface_sysctls(config.linux.sysctls):
                    in_network_namespace(netns, partial(write_interface_sysctls, config.linux.sysctls))
            self._rules.add(sandbox_id, AttachedSandbox(directory, lambda: netns), attachment)
            return addresses

    def _demands(self, sandbox_id: str, config: cri.PodSandboxConfig) -> dict[str, Any]:  # noqa: ARG002 - of one kind
        """Return the values of all capabilities. Raises BadRequestError."""
        return capability_arguments(config, self._ranges)

    def _is_default(self, network: NetworkConfiguration) -> bool:
        return self._default is not None and network is self._default.configuration

    def _name(self, sandbox_id: str, network: NetworkConfiguration) -> str:
        """Return the plug-ins' id of a sandbox."""
        return f"{self._prefix}{sandbox_id}" if self._is_default(network) else sandbox_id

    def _prepare(self, network: NetworkConfiguration) -> None:
        """Make the rules that must be there before a pod. Raises PodNetworkError.

        A configured network may do without iptables; then the failure is logged.
        """
        if self._default is not None and self._is_default(network):
            self._loopback.prepare()
            self._default.prepare()
            return
        try:
            self._loopback.prepare()
        except PodNetworkError as error:
            if str(error) != self._complaint:
                _log.warning("pods may reach what listens on 127.0.0.1 of this machine: %s", printable(str(error)))
            self._complaint = str(error)

    def detach(self, sandbox_id: str, directory: Path, netns: Path | None) -> None:
        """Detach a sandbox by its stored attachment, if any.

        Args:
            sandbox_id: of the sandbox.
            directory: of the sandbox.
            netns: its network namespace; None, or a file that is missing, after a restart of the machine.

        Raises:
            PodNetworkError: a plug-in failed; another attempt may succeed.
            OSError: the directory cannot be read or written.
        """
        if not self._turns.concern(sandbox_id) and not has_attachment(directory):
            return
        with self._turns.to_detach(sandbox_id):
            self._rules.discard(sandbox_id)
            attachment = self._kept(sandbox_id, directory)
            if attachment is not None:
                self._delete(attachment, directory, netns)
                if self._default is not None and self._rules.is_idle():
                    self._default.senders.tidy()

    def collect(self, alive: set[str]) -> None:
        """Free addresses of sandboxes that no longer exist, at a start.

        Of addresses that are not known to be this runtime's, only those older than the machine's last start are freed:
        nothing that was attached then is alive. A failure is logged, and the next start tries again. host-local flushes
        nothing: an address whose file a power cut has emptied would be in use for ever.

        Args:
            alive: ids of the sandboxes that exist, also the ones not ready.
        """
        try:
            network = self._configurations.current()
        except NetworkConfigurationError:
            return
        prefix, boot_time = self._prefix if self._is_default(network) else None, _boot_time()
        leases = [
            each
            for each in leases_of(network)
            if (prefix is not None and each.container_id.startswith(prefix)) or each.changed < boot_time
        ]
        for emptied in (each for each in leases if not each.container_id and each.changed < boot_time):
            _log.info("the address %s is freed: a power cut has emptied its file", emptied.file.name)
            with suppress(OSError):
                emptied.file.unlink()
        lost = {each.container_id for each in leases} - alive - {self._name(each, network) for each in alive} - {""}
        for container_id in sorted(lost):
            _log.info("sandbox %s no longer exists; its address is freed", printable(container_id))
            try:
                with self._turns.to_detach(container_id):
                    self._chain.delete(Attachment(network, container_id, _ARGUMENTS, OF_UNKNOWN), "")
            except PodNetworkError as error:
                _log.warning("%s", error)

    def watch(self, sandboxes: Mapping[str, AttachedSandbox]) -> None:
        """Watch that the firewall keeps the rules of sandboxes that were attached before this start of edgecore.

        `attach` does the same for later ones.
        """
        for sandbox_id, sandbox in sandboxes.items():
            try:
                attachment = read_attachment(sandbox.directory)
                if attachment is not None and attachment.result is not None:
                    self._rules.add(sandbox_id, sandbox, attachment)
            except (OSError, ValueError) as error:
                _log.warning("the host ports of sandbox %s are not looked after: %s", sandbox_id, error)
        self._rules.begin()
        default = self._default
        with suppress(NetworkConfigurationError, OSError):
            is_default = default is not None and self._configurations.current() is default.configuration
            if default is not None and is_default and (reason := default.conflict()):
                _log.warning("further pods get no network: %s", reason)

    def check_rules(self) -> None:
        """Look for the firewall rules of attached sandboxes, as it happens once a minute."""
        self._rules.check()

    def _repeat_ports(self, sandbox_id: str, sandbox: AttachedSandbox) -> None:
        """Make the rules for host ports of a sandbox again, if it is still attached.

        Raises:
            RequestRefusedError: the plug-in failed, or the sandbox's namespace cannot be found.
            ValueError: its attachment is damaged.
            OSError: the attachment cannot be read.
        """
        with self._turns.to_attach(sandbox_id):
            attachment = read_attachment(sandbox.directory)
            if attachment is None or attachment.result is None:
                return
            netns = sandbox.netns()
            if netns is not None and netns.exists():
                self._chain.repeat(attachment, str(netns), PORTMAP)

    def _kept(self, sandbox_id: str, directory: Path) -> Attachment | None:
        """Return the attachment that was kept; for a damaged file, one to today's network, if there is one."""
        try:
            return read_attachment(directory)
        except ValueError as error:
            _log.warning("what was kept of the network of sandbox %s is damaged: %s", sandbox_id, error)
        try:
            network = self._configurations.current()
            return Attachment(network, self._name(sandbox_id, network), _ARGUMENTS, OF_UNKNOWN)
        except NetworkConfigurationError as error:
            _log.warning("%s; nothing can be detached", error)
            remove_attachment(directory)
            return None

    def _undo(self, attachment: Attachment, directory: Path, netns: Path) -> None:
        try:
            self._delete(attachment, directory, netns)
        except (PodNetworkError, OSError) as error:
            _log.warning("sandbox %s stays attached in part: %s", attachment.container_id, error)

    def _delete(self, attachment: Attachment, directory: Path, netns: Path | None) -> None:
        self._chain.delete(attachment, str(netns) if netns is not None and netns.exists() else "")
        remove_attachment(directory)


class _Configurations:
    """The machine's CNI configuration, read again when its file changes."""

    def __init__(self, directory: Path, default: DefaultNetwork | None) -> None:
        self._directory = directory
        self._default = default
        self._read: tuple[object, NetworkConfiguration] | None = None

    def current(self) -> NetworkConfiguration:
        """Return the network. Raises NetworkConfigurationError."""
        try:
            path = find_configuration(self._directory)
            state = path.stat() if path is not None else None
        except OSError as error:
            attempt = f'read the CNI configuration in "{self._directory}"'
            raise NetworkConfigurationError(attempt, error.strerror or str(error)) from error
        if path is None or state is None:
            return self._of_no_file()
        version = (path, state.st_mtime_ns, state.st_size, state.st_ino)
        if self._read is None or self._read[0] != version:
            self._read = version, read_configuration(path)
        return self._read[1]

    def _of_no_file(self) -> NetworkConfiguration:
        if self._default is None:
            hint = "put a .conflist file there"
            raise NetworkConfigurationError("find a network for pods", f'"{self._directory}" has no file', hint)
        return self._default.configuration


_ARGUMENTS: Final = "IgnoreUnknown=1"


def _arguments(sandbox_id: str, config: cri.PodSandboxConfig) -> str:
    """Return `CNI_ARGS` with the pod's identity, under the names that plug-ins know."""
    metadata = config.metadata
    pairs = {
        "K8S_POD_NAMESPACE": metadata.namespace,
        "K8S_POD_NAME": metadata.name,
        "K8S_POD_INFRA_CONTAINER_ID": sandbox_id,
        "K8S_POD_UID": metadata.uid,
    }
    for value in pairs.values():
        if not value.isprintable() or ";" in value or "=" in value:
            raise BadRequestError(f"attach sandbox {sandbox_id}", f"{value[:100]!r} is no name of a pod")
    return ";".join([_ARGUMENTS, *(f"{name}={value}" for name, value in pairs.items())])


def _addresses(sandbox_id: str, result: dict[str, object]) -> PodAddresses:
    try:
        return addresses_of(result)
    except ValueError as error:
        raise PodNetworkError(f"attach sandbox {sandbox_id}", f"the result of the CNI plug-ins: {error}") from None


def _fields(attachment: Attachment) -> tuple[NetworkConfiguration, str, str, dict[str, object]]:
    return attachment.network, attachment.container_id, attachment.arguments, attachment.capabilities


def _boot_time() -> float:
    """Return when the machine was started, in seconds since the epoch."""
    lines = Path("/proc/stat").read_bytes().splitlines()
    return next((float(line[len(_BOOT_TIME) :]) for line in lines if line.startswith(_BOOT_TIME)), 0.0)
