"""Bugs of the kinds that reviewers have planted and the simulation did not find at first, as patches of the product."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from beehive.message import Message
from edged.api import Pod, PodStatus
from edged.api.versions import version_number
from edged.keeper import PodKeeper
from edged.pods.manager import PodManager, PodRecord
from edged.pods.model import PodUid
from edged.report import pods as reports
from edged.report.pods import PodReporter, _Entry
from edged.rounds import Rounds
from edged.work.job import Done, Task
from metamanager.pod_list import PodList
from metamanager.remote import Remote
from metamanager.rows import Row
from modules.cloudhub.connections import Connected
from modules.cloudhub.module import CloudHub
from modules.edgecontroller.module import EdgeController
from modules.edgecontroller.syncs import Syncs

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

    def is_needed(self: Syncs, node: str, uid: str, version: int) -> bool:
        sync = self.of(node).get(uid)
        return sync is None or str(sync.version) < str(version)

    with patch.object(Syncs, "is_needed", is_needed):
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
    with patch.object(PodReporter, "of_store", lambda *_args: None):
        yield


@contextmanager
def the_cloud_is_not_heard_while_a_patch_is_under_way() -> Iterator[None]:
    """A status that others wrote meanwhile stays."""

    def heard(_self: PodReporter, entry: _Entry, pod: Pod) -> None:
        if not entry.busy:
            reports._catch_up(entry, version_number(pod.metadata.resource_version), pod.status)

    with patch.object(PodReporter, "_heard", heard):
        yield


@contextmanager
def a_late_answer_resurrects() -> Iterator[None]:
    """What was deleted while the cloud was asked for it is stored all the same."""
    with patch.object(Remote, "void", lambda *_args: None):
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

    def on_disconnected(self: EdgeController, message: Message) -> None:
        self._left(message.content_as(Connected).client_id)

    handler: Any = EdgeController.on_disconnected  # which the table of handlers holds already
    code, handler.__code__ = handler.__code__, on_disconnected.__code__
    try:
        yield
    finally:
        handler.__code__ = code


@contextmanager
def a_deletion_is_confirmed_before_the_pod_has_ended() -> Iterator[None]:
    """The cloud may give its place to another."""
    want = Rounds.want

    def hasty(self: Rounds, record: PodRecord) -> None:
        want(self, record)
        if record.going and not record.removed:
            self._reporter.finish(record.ref.uid)

    with patch.object(Rounds, "want", hasty):
        yield


@contextmanager
def a_deletion_is_confirmed_although_the_runtime_refused_it() -> Iterator[None]:
    """Likewise, when a container could not be stopped."""
    retry = Rounds._retry

    def hasty(self: Rounds, done: Done) -> None:
        retry(self, done)
        if done.job.task is Task.KILL:
            self._reporter.finish(done.job.ref.uid)

    with patch.object(Rounds, "_retry", hasty):
        yield


@contextmanager
def what_is_deleted_while_the_cloud_lists_its_pods_is_taken_from_the_list() -> Iterator[None]:
    """A message that came during the listing counts for nothing."""
    with patch.object(PodList, "deleted", lambda *_args: None):
        yield


@contextmanager
def messages_count_for_nothing_while_the_store_lists_its_pods() -> Iterator[None]:
    """edged at its start: the store is believed, whatever a message said meanwhile."""
    with patch.object(PodKeeper, "_hear_of", lambda *_args: None):
        yield


@contextmanager
def messages_are_ignored_while_the_store_lists_its_pods() -> Iterator[None]:
    """edged at its start: it takes nothing before the store's list has come."""
    take, remove = PodKeeper.take, PodKeeper.remove

    def taken(self: PodKeeper, pod: Pod) -> None:
        if self._complete or _in_listing:
            take(self, pod)

    def removed(self: PodKeeper, namespace: str, name: str, uid: str, grace: int | None = None) -> None:
        if self._complete:
            remove(self, namespace, name, uid, grace)

    listed = PodKeeper.listed

    def listing(self: PodKeeper, pods: Any) -> None:
        _in_listing.append(True)
        try:
            listed(self, pods)
        finally:
            _in_listing.clear()

    with (
        patch.object(PodKeeper, "take", taken),
        patch.object(PodKeeper, "remove", removed),
        patch.object(PodKeeper, "listed", listing),
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
