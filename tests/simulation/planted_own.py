"""More bugs of the same kinds, planted by who wrote the workloads and invariants that are to find them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from beehive.message import Message
from edged.pleg.messages import PodInspection
from edged.pods.manager import PodRecord
from edged.status.manager import StatusManager, _Entry
from edged.sync.events import SyncEvent
from edged.sync.loop import SyncLoop
from edgehub.outgoing import Outgoing
from metamanager import pod_list
from metamanager.client import CallError
from metamanager.pod_list import ListedPod
from modules.apimachinery.kinds import ObjectKey
from modules.apimachinery.types import Pod, PodStatus
from modules.cloud.cloudhub.node_session import NodeSession
from modules.cloud.edgecontroller import node_machine
from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from modules.cloud.edgecontroller.node_machine import Load, Seen
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs
from modules.cloud.storage.object_sync import NodeState, ObjectSync

Plant = Callable[[], AbstractContextManager[None]]


@contextmanager
def an_older_pod_of_the_list_replaces_a_newer_one() -> Iterator[None]:
    """The cloud's list, which is late, is believed against a pod that came after it under the same name."""

    def may_replace(_pod: ListedPod, _stored: str | None) -> bool:
        return True

    with patch.object(pod_list, "may_replace", may_replace):
        yield


@contextmanager
def what_a_node_has_once_is_not_sent_again() -> Iterator[None]:
    """At a connection: changes that were made while there was none are not delivered."""

    def is_needed(self: ObjectSyncs, node: str, uid: str, version: int) -> bool:
        sync = self.of(node).get(uid)
        return sync is None or (sync.version == 0 < version)

    with patch.object(ObjectSyncs, "is_needed", is_needed):
        yield


@contextmanager
def deletions_end_with_the_connection() -> Iterator[None]:
    """What was deleted while the node was away is not told."""

    def nothing(_self: DownstreamController, _node: str, _uid: str, _sync: ObjectSync) -> None:
        pass

    with patch.object(DownstreamController, "_send_deletion", nothing):
        yield


@contextmanager
def labels_of_others_are_not_taken() -> Iterator[None]:
    """edged keeps a pod's first metadata."""
    update = PodRecord.update

    def stale(self: PodRecord, pod: Pod) -> None:
        update(self, replace(pod, metadata=replace(pod.metadata, labels=self.pod.metadata.labels)))

    with patch.object(PodRecord, "update", stale):
        yield


@contextmanager
def a_patch_counts_as_taken_when_it_is_sent() -> Iterator[None]:
    """The next is made against what the cloud may never have got."""
    send = StatusManager._patch

    def hopeful(self: StatusManager, entry: _Entry, wanted: PodStatus, text: str) -> None:
        entry.has = wanted
        send(self, entry, wanted, text)

    with patch.object(StatusManager, "_patch", hopeful):
        yield


@contextmanager
def older_facts_win() -> Iterator[None]:
    """What was seen before a worker was at a pod counts after it."""
    handle = SyncLoop.handle

    def forgetful(self: SyncLoop, event: SyncEvent) -> None:
        record = self._of_pods.pods.get(event.facts.ref.uid) if isinstance(event, PodInspection) else None
        if record is not None:
            record.facts_at = float("-inf")
        handle(self, event)

    with patch.object(SyncLoop, "handle", forgetful):
        yield


@contextmanager
def one_frame_more_is_taken_for_confirmed() -> Iterator[None]:
    """The next one after the arrived frames is not sent again."""
    confirmed = Outgoing.confirmed

    def generous(self: Outgoing, frames: int, now: float) -> None:
        confirmed(self, frames + 1, now)

    with patch.object(Outgoing, "confirmed", generous):
        yield


@contextmanager
def an_acknowledgement_of_an_older_version_is_one_of_the_newest() -> Iterator[None]:
    """cloudhub does not look at the version that was acknowledged."""
    acknowledge = NodeSession.acknowledge

    def hasty(self: NodeSession, message_id: str) -> Any:
        subject = self._sent.get(message_id)
        pending = self.under_way.get(subject.key) if subject is not None else None
        return acknowledge(self, pending.message.id if pending is not None else message_id)

    with patch.object(NodeSession, "acknowledge", hasty):
        yield


@contextmanager
def a_refusal_is_taken_for_the_end_of_the_pod() -> Iterator[None]:
    """After any failed patch the pod counts as unknown there, and is not reported again."""
    answered = StatusManager._answered

    def silent(self: StatusManager, entry: _Entry, error: CallError | None = None) -> None:
        answered(self, entry, error)
        entry.unknown = entry.unknown or error is not None

    with patch.object(StatusManager, "_answered", silent):
        yield


@contextmanager
def an_object_made_anew_takes_the_sync_of_its_namesake() -> Iterator[None]:
    """The cloud knows what a node has by name: one of another uid is taken for delivered."""

    def sending(self: ObjectSyncs, node: str, uid: str, key: ObjectKey) -> None:
        if uid not in self.of(node):
            former = next((sync for sync in self.of(node).values() if sync.key == key), None)
            self._put(node, uid, ObjectSync(key, 2**62 if former is not None and former.version else 0))

    with patch.object(ObjectSyncs, "sending", sending):
        yield


@contextmanager
def a_message_that_came_twice_is_not_acknowledged_twice() -> Iterator[None]:
    """The cloud never learns of an object whose first acknowledgement was lost."""
    from metamanager.steps import Steps  # noqa: PLC0415

    acknowledge, seen = Steps.ok_to_cloud, set[str]()

    def once(self: Steps, message: Message) -> list[Any]:
        if message.id in seen:
            return []
        seen.add(message.id)
        return list(acknowledge(self, message))

    with patch.object(Steps, "ok_to_cloud", once):
        yield


@contextmanager
def what_a_node_is_answered_is_not_recorded() -> Iterator[None]:
    """A pod of its list that no watch tells of stays on the node when it is deleted."""
    with patch.object(DownstreamController, "record_answer", lambda *_args: None):
        yield


@contextmanager
def what_a_node_has_is_forgotten_while_the_mirror_has_no_node_of_it() -> Iterator[None]:
    """Another cloudcore has served the Node that was made again."""
    load = node_machine._load

    def forgetful(seen: Seen) -> Load:
        found, present = seen.stored, NodeState(seen.uid, seen.epoch)
        return replace(load(seen), forgets=found.uid not in ("", present.uid), state=present)

    with patch.object(node_machine, "_load", forgetful):
        yield


@contextmanager
def an_object_is_sent_although_the_node_has_its_successor() -> Iterator[None]:
    """Another cloudcore has sent that, and the watch is late."""
    with patch.object(DownstreamController, "_is_succeeded", lambda *_args: False):
        yield


OWN: tuple[Plant, ...] = (
    an_older_pod_of_the_list_replaces_a_newer_one,
    what_a_node_has_once_is_not_sent_again,
    deletions_end_with_the_connection,
    labels_of_others_are_not_taken,
    a_patch_counts_as_taken_when_it_is_sent,
    older_facts_win,
    one_frame_more_is_taken_for_confirmed,
    an_acknowledgement_of_an_older_version_is_one_of_the_newest,
    a_refusal_is_taken_for_the_end_of_the_pod,
    an_object_made_anew_takes_the_sync_of_its_namesake,
    a_message_that_came_twice_is_not_acknowledged_twice,
    what_a_node_is_answered_is_not_recorded,
    what_a_node_has_is_forgotten_while_the_mirror_has_no_node_of_it,
    an_object_is_sent_although_the_node_has_its_successor,
)
