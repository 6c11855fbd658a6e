"""Bugs of the kinds that reviewers have planted and the simulation did not find at first, as patches of the product."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from edged.pod_workers.job import Done
from edged.pods.manager import PodManager
from edged.pods.model import PodState, PodUid
from edged.status import manager as reports
from edged.status.manager import StatusManager, _Entry
from edged.sync.loop import SyncLoop
from metamanager.pod_list import PodList
from metamanager.remote_query import RemoteQuery
from metamanager.rows import Row
from modules.apimachinery.types import Pod, PodStatus
from modules.apimachinery.types.versions import version_number
from modules.cloud.cloudhub.module import CloudHub
from modules.cloud.edgecontroller.node_connections import NodeConnections
from modules.cloud.edgecontroller.node_machine import Disconnected, ForCluster
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs
from modules.cloud.messages import ConnectEvent

Plant = Callable[[], AbstractContextManager[None]]


@contextmanager
def the_store_compares_versions_as_text() -> Iterator[None]:
    """Version 10 is older than 9."""

    def supersedes(self: Row, uid: str | None, resource_version: int | None) -> bool:
        return uid != self.uid or str(resource_version or 0) < str(self.resource_version)

    with patch.object(Row, "supersedes", supersedes):
        yield


@contextmanager
def reports_compare_versions_as_text() -> Iterator[None]:
    """Likewise, of what the cloud says that it has of a pod's status."""

    def catch_up(entry: _Entry, version: int, status: PodStatus) -> None:
        if str(version) >= str(entry.version):
            entry.has, entry.version, entry.unknown = status, version, False

    with patch.object(reports, "_catch_up", catch_up):
        yield


@contextmanager
def the_cloud_compares_versions_as_text() -> Iterator[None]:
    """Likewise, of what a node has acknowledged."""

    def is_needed(self: ObjectSyncs, node: str, uid: str, version: int) -> bool:
        sync = self.of(node).get(uid)
        return sync is None or str(sync.version) < str(version)

    with patch.object(ObjectSyncs, "is_needed", is_needed):
        yield


@contextmanager
def the_base_is_trusted_after_a_lost_answer() -> Iterator[None]:
    """Whether the cloud has taken a patch is not known, and the next is made as if it had not."""

    class NeverError(Exception):
        """No error is one."""

    with patch.object(reports, "NoAnswerError", NeverError):
        yield


@contextmanager
def the_store_is_trusted_after_a_restart() -> Iterator[None]:
    """What a former life of the agent said last is not in the store, and the next patch is made as if it were."""
    with patch.object(StatusManager, "mark_from_store", lambda *_args: None):
        yield


@contextmanager
def the_cloud_is_not_heard_while_a_patch_is_under_way() -> Iterator[None]:
    """A status that others wrote meanwhile stays."""

    def heard(_self: StatusManager, entry: _Entry, pod: Pod) -> None:
        if not entry.busy:
            reports._catch_up(entry, version_number(pod.metadata.resource_version), pod.status)

    with patch.object(StatusManager, "_update_known", heard):
        yield


@contextmanager
def a_late_answer_resurrects() -> Iterator[None]:
    """What was deleted while the cloud was asked for it is stored all the same."""
    with patch.object(RemoteQuery, "discard", lambda *_args: None):
        yield


@contextmanager
def a_held_successor_is_forgotten() -> Iterator[None]:
    """A pod that waits for its namesake's end never begins."""

    def release(self: PodManager, uid: PodUid) -> None:
        self._held.pop(uid, None)

    with patch.object(PodManager, "release", release):
        yield


@contextmanager
def the_end_of_an_old_connection_ends_the_new_one() -> Iterator[None]:
    """cloudhub looks at the node's name and not at the connection."""

    def closed(self: CloudHub, node: str, _link: Any) -> None:
        self._disconnect(node, "the connection was closed")

    with patch.object(CloudHub, "_closed", closed):
        yield


@contextmanager
def the_end_of_an_old_connection_ends_the_new_one_for_edgecontroller() -> Iterator[None]:
    """Likewise: the node is sent nothing until it connects again."""

    def disconnected(self: NodeConnections, event: ConnectEvent) -> list[ForCluster]:
        return self._handle(event.client_id, Disconnected(self.connection_of(event.client_id)))

    with patch.object(NodeConnections, "disconnected", disconnected):
        yield


@contextmanager
def a_deletion_is_confirmed_before_the_pod_has_ended() -> Iterator[None]:
    """The cloud may give its place to another."""
    update_pod = SyncLoop._update_pod

    def hasty(self: SyncLoop, pod: Pod, **how: bool) -> None:
        update_pod(self, pod, **how)
        record = self._of_pods.pods.get(PodUid(pod.metadata.uid))
        if record is not None and record.deletion_requested and not record.deleted:
            self._of_pods.status_manager.terminate_pod(record.ref.uid)

    with patch.object(SyncLoop, "_update_pod", hasty):
        yield


@contextmanager
def a_deletion_is_confirmed_although_the_runtime_refused_it() -> Iterator[None]:
    """Likewise, when a container could not be stopped."""
    complete_work = SyncLoop.handle_work_done

    def hasty(self: SyncLoop, done: Done) -> None:
        complete_work(self, done)
        if done.error is not None and done.job.state is PodState.TERMINATING:
            self._of_pods.status_manager.terminate_pod(done.job.ref.uid)

    with patch.object(SyncLoop, "handle_work_done", hasty):
        yield


@contextmanager
def what_is_deleted_while_the_cloud_lists_its_pods_is_taken_from_the_list() -> Iterator[None]:
    """A message that came during the listing counts for nothing."""
    with patch.object(PodList, "record_deletion", lambda *_args: None):
        yield


@contextmanager
def messages_count_for_nothing_while_the_store_lists_its_pods() -> Iterator[None]:
    """edged at its start: the store is believed, whatever a message said meanwhile."""
    with patch.object(SyncLoop, "_record_update", lambda *_args: None):
        yield


@contextmanager
def messages_are_ignored_while_the_store_lists_its_pods() -> Iterator[None]:
    """edged at its start: it takes nothing before the store's list has come."""
    take, remove = SyncLoop._update_pod, SyncLoop.handle_pod_remove

    def taken(self: SyncLoop, pod: Pod, **how: bool) -> None:
        if self._complete or _in_listing:
            take(self, pod, **how)

    def removed(self: SyncLoop, namespace: str, name: str, uid: str, grace: int | None = None, **how: bool) -> None:
        if self._complete:
            remove(self, namespace, name, uid, grace, **how)

    listed = SyncLoop.handle_stored_pods

    def listing(self: SyncLoop, pods: Any) -> None:
        _in_listing.append(True)
        try:
            listed(self, pods)
        finally:
            _in_listing.clear()

    with (
        patch.object(SyncLoop, "_update_pod", taken),
        patch.object(SyncLoop, "handle_pod_remove", removed),
        patch.object(SyncLoop, "handle_stored_pods", listing),
    ):
        yield


_in_listing: list[bool] = []


REVIEWED: tuple[Plant, ...] = (
    the_store_compares_versions_as_text,
    reports_compare_versions_as_text,
    the_cloud_compares_versions_as_text,
    the_base_is_trusted_after_a_lost_answer,
    the_store_is_trusted_after_a_restart,
    the_cloud_is_not_heard_while_a_patch_is_under_way,
    a_late_answer_resurrects,
    a_held_successor_is_forgotten,
    the_end_of_an_old_connection_ends_the_new_one,
    the_end_of_an_old_connection_ends_the_new_one_for_edgecontroller,
    a_deletion_is_confirmed_before_the_pod_has_ended,
    a_deletion_is_confirmed_although_the_runtime_refused_it,
    what_is_deleted_while_the_cloud_lists_its_pods_is_taken_from_the_list,
    messages_count_for_nothing_while_the_store_lists_its_pods,
    messages_are_ignored_while_the_store_lists_its_pods,
)
