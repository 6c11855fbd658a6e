"""The command `edgecore uninstall`, and what `edgecore leave` has in common with it."""

import argparse
import select
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Final

from beehive import RealClock
from beehive.files.descriptors import OwnedFd, open_process
from beehive.node_namespaces import is_machine_root
from modules.apimachinery.printing.terminal import print_lines
from modules.edge.edgemesh.nft.addresses import AddressError, HostAddresses
from modules.edge.edgemesh.nft.program import Nft, NftError, NftMissingError
from modules.edge.edgemesh.nft.ruleset import deletion
from modules.processes.common.backup.errors import BackupError
from modules.processes.common.confirming import is_confirmed
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.container_runtime import purge_kind
from modules.processes.edgecore.location import NodeLocation, node_location
from modules.processes.edgecore.ownership import LOCK_FILE, RootDirectoryInUseError, lock_root_directory
from modules.processes.edgecore.reporting import print_remark, reporting_errors
from modules.processes.edgecore.rootless import enter_namespaces, is_rootless, leave_no_namespaces
from modules.processes.edgecore.runtime_kinds import RuntimeKind, kinds_with_records, of_kind, other_kinds
from modules.processes.edgecore.uninstall.files import Leftovers, has_images_alone, leftovers, pod_uids
from modules.processes.edgecore.uninstall.lost import described, signal_lost
from modules.processes.edgecore.uninstall.pods import end_pods, remove_cgroups, unmount_below
from modules.processes.edgecore.upgrade.exclusion import changes_of, held

STOP_SECONDS: Final = 60.0
"""Seconds within which a running edgecore has to stop."""

_UNITS: Final = ("/etc/systemd/system/edgecore.service", "~/.config/systemd/user/edgecore.service")


def remove_service_rules(
    config: EdgeCoreConfig, say: Callable[[str], None], nft: Nft | None = None, addresses: HostAddresses | None = None
) -> None:
    """Remove edgemesh's rules, its route and the address of its name server from the kernel, if the module is on and
    this is root; say what cannot be removed.

    Args:
        config: of the node.
        say: prints a line.
        nft: for tests.
        addresses: for tests.
    """
    mesh = config.modules.edge_mesh
    if not mesh.enable or not is_machine_root():
        return
    addresses = addresses or HostAddresses()
    try:
        (nft or Nft()).apply(deletion())
    except NftMissingError:
        pass  # then there never were any
    except NftError as error:
        say(f"rules of Services are left: {error}; `nft delete table ip edgecore` removes them")
    try:
        for cidr in mesh.service_cidrs:
            addresses.remove_route(cidr)
        addresses.remove_address(mesh.dns_address)
    except AddressError as error:
        say(f"the route to Services, or the name server's address, is left: {error}")


@reporting_errors
def uninstall(chosen: argparse.Namespace) -> None:
    """End the node's pods, and remove its files and units."""
    location = node_location(chosen)
    config = location.load().config
    root = config.modules.edged.root_directory
    if (root / LOCK_FILE).exists() and not chosen.dry_run and not chosen.stop:
        _check_stopped(root)
    if not is_there(config, location):
        print_remark(f"nothing of a node is left: {location}")
    elif confirmed(chosen, config, location):
        with held(changes_of(location, config)):
            remove_node(chosen, config, location)


def is_there(config: EdgeCoreConfig, location: NodeLocation) -> bool:
    """Return whether there are files, units or lost processes of the node."""
    return bool(leftovers(config, location).remove or units_of(location) or signal_lost(config))


def confirmed(chosen: argparse.Namespace, config: EdgeCoreConfig, location: NodeLocation) -> bool:
    """Print what will be removed, and ask, unless the options say otherwise; return whether it is to be done.

    Raises:
        BackupError: a person says no, or there is none.
    """
    found, units = leftovers(config, location), units_of(location)
    if chosen.dry_run or not chosen.yes:
        _print_plan(found, units, len(pod_uids(config)), chosen)
        if lost := signal_lost(config):
            print_remark(f"{'would' if chosen.dry_run else 'will'} end the {described(lost)}")
    for other in other_kinds(config) if (config.modules.edged.root_directory / LOCK_FILE).exists() else ():
        print_remark(f"{'would' if chosen.dry_run else 'will'} end them too: {other}")
    if chosen.dry_run:
        return False
    if not chosen.yes:
        _ask(location)
    return True


def remove_node(
    chosen: argparse.Namespace, config: EdgeCoreConfig, location: NodeLocation, *, is_known: bool = True
) -> None:
    """End the pods, and remove the files and units.

    Args:
        chosen: the options.
        config: of the node.
        location: of the node.
        is_known: whether the cloud may have its Node.

    Raises:
        BackupError: edgecore runs, and is not to be stopped, or does not stop.
        EdgedError: the container runtime does not answer.
        OSError: something cannot be removed.
    """
    root = config.modules.edged.root_directory
    has_run = (root / LOCK_FILE).exists()
    if lost := signal_lost(config, signal.SIGKILL):
        print_remark(f"ended the {described(lost)}")
    _enter_namespaces(config)
    found, units = leftovers(config, location), units_of(location)
    with ExitStack() as stack:
        if has_run:
            if chosen.stop:
                stop(root)
            lock_root_directory(root, stack)
            found, uids = leftovers(config, location), pod_uids(config)  # it may have run on until now
            kinds = kinds_with_records(config)
            if not config.runs_container_runtime:
                end_pods(config, uids, print_remark)
            for kind in kinds:
                end_pods(of_kind(config, kind), uids, print_remark)
            unmount_below(root, print_remark)
            remove_cgroups(config, uids, print_remark)
            remove_service_rules(config, print_remark)
            if not chosen.keep_data:
                _purge_runtimes(config, kinds)
        left = [] if chosen.keep_data else _remove(found, units)
    leave_no_namespaces(config)
    if has_run or location.file is not None:
        _print_rest(config, left, kept=chosen.keep_data, is_known=is_known)
    else:  # its directory was removed, and the name of the node with it
        print_lines([f"what was left of the node in {location.root} is removed"])


def _enter_namespaces(config: EdgeCoreConfig) -> None:
    """Enter the namespaces where an ordinary user may remove the files of containers. Raises EdgedError."""
    if is_rootless(config) or RuntimeKind.OCI in kinds_with_records(config) or has_images_alone(config):
        enter_namespaces(of_kind(config, RuntimeKind.OCI))


def _check_stopped(root: Path) -> None:
    with ExitStack() as probe:
        try:
            lock_root_directory(root, probe)
        except RootDirectoryInUseError as error:
            raise BackupError("edgecore is running", str(root), "stop it, or let --stop do it") from error


def _print_plan(found: Leftovers, units: list[Path], pods: int, chosen: argparse.Namespace) -> None:
    would = "would" if chosen.dry_run else "will"
    print_remark(f"{would} end the pods of this node (directories of pods: {pods}) and unmount their volumes")
    if not chosen.keep_data:
        for path in [*found.remove, *units]:
            print_remark(f"{would} remove {path}")
        for path in found.if_empty:
            print_remark(f"{would} remove, if it is empty then: {path}")


def _ask(location: NodeLocation) -> None:
    if not sys.stdin.isatty():
        raise BackupError("not uninstalled", str(location), "--yes confirms it, --dry-run shows what would be")
    if not is_confirmed("uninstall?"):
        raise BackupError("not uninstalled", hint="nothing was changed")


def stop(root: Path) -> None:
    """Stop the edgecore that holds the directory, and wait for its end.

    Raises:
        BackupError: it does not stop.
    """
    with ExitStack() as probe:
        try:
            lock_root_directory(root, probe)
            return
        except RootDirectoryInUseError:
            pass
    process = int((root / LOCK_FILE).read_text().strip() or "0")
    if process <= 1:
        raise BackupError("cannot stop the running edgecore", str(root), "its process is not known; stop it yourself")
    with suppress(ProcessLookupError), OwnedFd(open_process(process)) as descriptor:
        print_remark(f"stop edgecore, process {process}")
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        if not select.select([descriptor], [], [], STOP_SECONDS)[0]:
            raise BackupError("edgecore does not stop", f"process {process}", f"waited {STOP_SECONDS:.0f} s")


def _purge_runtimes(config: EdgeCoreConfig, kinds: Sequence[RuntimeKind]) -> None:
    """Remove containers, images, mounts and the pod network of all runtimes inside edgecore, before their files go."""
    with closing(RealClock()) as clock:
        for kind in kinds:
            purge_kind(config, kind, clock)


def _remove(found: Leftovers, units: list[Path]) -> list[Path]:
    for unit in units:
        unit.unlink(missing_ok=True)
        print_remark(
            f"removed {unit}: `systemctl{' --user' if '/user/' in str(unit) else ''} daemon-reload` tells systemd"
        )
    left = found.remove_all()
    print_remark(f"removed {len(found.remove)} files and directories")
    return left


def units_of(location: NodeLocation) -> list[Path]:
    """Return the units that run this node, as `edgecore unit` prints them."""
    words = f" run {' '.join(location.options)}"
    found = []
    for name in _UNITS:
        with suppress(OSError, RuntimeError):
            path = Path(name).expanduser()
            lines = path.read_text(errors="replace").splitlines()
            if any(line.startswith("ExecStart=") and line.endswith(words) for line in lines):
                found.append(path)
    return found


def _print_rest(config: EdgeCoreConfig, left: list[Path], *, kept: bool, is_known: bool) -> None:
    for path in left:
        print_remark(f"left, because there is more in it: {path}")
    if not config.runs_container_runtime:
        print_remark("left: the container runtime and its images")
    end = ": its pods have ended, its files stay" if kept else " is uninstalled"
    print_lines([f"node {config.node_name}{end}"])
    if config.modules.edge_hub.enable and is_known:
        print_remark(
            f"left: the Node {config.node_name} in the cloud; `kubectl delete node {config.node_name}` removes it"
        )
