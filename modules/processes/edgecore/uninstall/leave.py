"""The command `edgecore leave`: drains and deletes the Node with a user's rights, and uninstalls.

A node has no right to delete its Node: one that was taken over could come back as a new one, without the taints and
labels that administrators have given it. So a user's kubeconfig is needed for the cloud's part. Without one, or when
the cloud does not answer, that part is left to do there, and named.
"""

import argparse
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final

from beehive import RealClock
from modules.cli.errors import KubectlError, StatusError
from modules.cli.rest import path_of
from modules.kubectl import drain
from modules.kubectl.session import Session
from modules.processes.common.backup.errors import BackupError
from modules.processes.common.kubeconfig_client import KubeconfigClient, transport_of
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.location import NodeLocation, node_location
from modules.processes.edgecore.reporting import print_remark, reporting_errors
from modules.processes.edgecore.uninstall.commands import (
    confirmed,
    is_there,
    remove_node,
    stop,
    units_of,
)
from modules.processes.edgecore.upgrade.commands import running_node
from modules.processes.edgecore.upgrade.exclusion import changes_of, held

_SECONDS: Final = 90.0


@reporting_errors
def leave(chosen: argparse.Namespace) -> None:
    """Drain the node, stop edgecore, delete the Node, and remove the node's files."""
    location = node_location(chosen)
    config = location.load().config
    with _cloud(chosen, config.node_name) as cloud:
        uid = "" if cloud is None else cloud.uid()
        would = "would" if chosen.dry_run else "will"
        if uid and not (chosen.yes and not chosen.dry_run):
            print_remark(f"{would} drain the node {config.node_name} and delete it in the cloud")
        if is_there(config, location) and not confirmed(chosen, config, location):
            return
        if chosen.dry_run:
            return
        with held(changes_of(location, config)):
            if cloud is not None and uid:
                cloud.drain(chosen)
            _stop(config, location)
            if cloud is not None and uid:
                cloud.delete(uid)
            if is_there(config, location):
                remove_node(chosen, config, location, is_known=cloud is None)
    if config.modules.edge_hub.enable:
        _print_left(config.node_name, is_deleted=cloud is not None)


class _Cloud:
    """The node's cloud, with a user's rights."""

    def __init__(self, client: KubeconfigClient, node: str) -> None:
        self._session = Session("edgecore", client)
        self._client = client
        self._node = node
        self._path = path_of("api", "v1", "nodes", node)

    def uid(self) -> str:
        """Return the uid of the Node; empty if there is none. Raises KubectlError."""
        try:
            return str(self._client.get(self._path)["metadata"]["uid"])
        except StatusError as error:
            if error.is_not_found:
                print_remark(f"there is no Node {self._node} in the cloud")
                return ""
            raise

    def drain(self, chosen: argparse.Namespace) -> None:
        """Let no more pods onto the node, and evict the present ones.

        Raises:
            BackupError: some may not be evicted, or did not end in time.
        """
        options = argparse.Namespace(
            words=[self._node], selector="", pod_selector="", dry_run="none", ignore_daemonsets=True,
            delete_emptydir_data=chosen.force, force=chosen.force, disable_eviction=False, grace_period=-1,
            timeout=chosen.timeout, verb="drain",
        )  # fmt: skip
        if drain.run(self._session, options):
            hint = "it takes no new pods now, `kubectl uncordon` changes that; --force drains it nevertheless"
            raise BackupError("the node is not drained", self._node, hint)

    def delete(self, uid: str) -> None:
        """Delete the Node, if it is still the one that was drained.

        Raises:
            BackupError: it cannot be deleted; nothing of the node was removed here.
        """
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        try:
            self._client.request("DELETE", self._path, body=body)
        except KubectlError as error:
            if not (isinstance(error, StatusError) and error.is_not_found):
                hint = f"{error.text}; its files are still here: leave again, without --kubeconfig if need be"
                raise BackupError("cannot delete the Node", self._node, hint) from error
        print_remark(f"deleted the Node {self._node} in the cloud")


@contextmanager
def _cloud(chosen: argparse.Namespace, node: str) -> Iterator[_Cloud | None]:
    """Yield the cloud; None without a kubeconfig. Raises BeehiveError if the kubeconfig cannot be used."""
    if chosen.kubeconfig is None:
        yield None
        return
    with closing(RealClock()) as clock:
        _, transport = transport_of(chosen.kubeconfig, chosen.context, clock, "edgecore-leave")
        try:
            yield _Cloud(KubeconfigClient(transport), node)
        except KubectlError as error:
            hint = f"{error.text}; without --kubeconfig the node leaves without its cloud"
            raise BackupError("cannot ask the cloud", str(chosen.kubeconfig), hint) from error
        finally:
            transport.close()


def _stop(config: EdgeCoreConfig, location: NodeLocation) -> None:
    """Stop edgecore, and let systemd start it no more."""
    handle = running_node(config, location)
    units = {(path.name, "/user/" in str(path)) for path in units_of(location)}
    if handle is not None and handle.unit:
        units.add((handle.unit, handle.user))
    for unit, is_users in sorted(units):
        words = ["systemctl", *(["--user"] if is_users else []), "disable", "--now", unit]
        with suppress(OSError, subprocess.SubprocessError):  # no systemd runs here
            ran = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False)
            why = ran.stderr.decode(errors="replace").strip()
            print_remark(f"systemd does not disable {unit}: {why}" if ran.returncode else f"disabled {unit}")
    if handle is not None:
        stop(config.modules.edged.root_directory)


def _print_left(node: str, *, is_deleted: bool) -> None:
    if not is_deleted:
        print_remark(f"left: the pods of {node} in the cloud; `kubectl drain {node}` makes them elsewhere")
    print_remark(
        f"left: the cloud knows the key of {node}: another machine takes the name with a token of "
        f"`cloudcore token --node {node} --replace`, and `cloudcore revoke node {node}` locks the key out"
    )
