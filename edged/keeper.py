"""Keeps the node's pods: what is wanted and what is, as messages, the runtime and the node itself say.

It is told of messages by the module and of facts by the PLEG. What follows is a new status (`edged.statuses`), a turn
(`edged.rounds`), or nothing. Lives on the edged module's thread.
"""

import logging
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from edged.admission.admit import Place, refusal
from edged.admission.second_look import Ask, SecondLook
from edged.admission.validation import invalid
from edged.api import Pod
from edged.deadlines import Deadlines
from edged.events.pods import PodEvents
from edged.lifecycle.lives import Lives
from edged.orphans import Orphans
from edged.pleg.messages import Relisted, Seen
from edged.pods.labels import ref_of
from edged.pods.manager import PodManager, PodRecord, ends
from edged.pods.model import PodRef, PodUid, with_exchanged
from edged.pods.restart import is_terminal
from edged.pods.status import NodeView
from edged.pods.verdict import Verdict
from edged.probes.crew import Crew
from edged.probes.manager import ProbeManager
from edged.report.pods import PodReporter
from edged.rounds import Rounds, Turns
from edged.settings import EdgedSettings
from edged.static_pods.manifest import is_static
from edged.statuses import Statuses
from edged.volumes.usage import EVICTED
from edged.work.pool import Worker

_log = logging.getLogger(__name__)


class PodKeeper:
    """See the module's docstring.

    Args:
        turns: the module.
        settings: edged's.
        reporter: takes statuses.
        owner: the mark of what this agent made in the runtime.
        publish: takes the pods whenever one changed, for the local HTTP server.
        hire: makes a worker for a pod that goes.
        crew: asks containers how they are.
        lives: hooks, waits and grace periods of containers; ended sooner when their pod is to end.
        place: what a new pod finds on this node.
        ask_for_node: asks the cloud for the Node object, see `SecondLook`.
        events: is told what becomes of pods.
    """

    def __init__(
        self,
        turns: Turns,
        settings: EdgedSettings,
        reporter: PodReporter,
        owner: str,
        publish: Callable[[tuple[Pod, ...]], None],
        hire: Callable[[], Worker],
        *,
        crew: Crew,
        lives: Lives,
        place: Callable[[], Place],
        ask_for_node: Ask,
        events: PodEvents,
    ) -> None:
        self._events = events
        self._reporter = reporter
        self._place = place
        self.pods = PodManager()
        self._second_look = SecondLook(self.pods, place, ask_for_node, self.take)
        self.orphans = Orphans(owner)
        self.rounds = Rounds(turns, settings, self, reporter, hire, lives=lives, events=events)
        self.probes = ProbeManager(turns, crew, self._pod_of, self.health_changed, events)
        self._deadlines = Deadlines(turns, self._overdue)
        self.statuses = Statuses(
            turns.clock,
            self.pods,
            self.probes,
            reporter,
            working=self.rounds.pool.working,
            hooks=lives.start_hooks.facts,
            deadlines=self._deadlines,
            publish=publish,
        )
        self._heard_of: set[PodUid] = set()
        self._complete = False

    def listed(self, pods: Iterable[Pod]) -> None:
        """The store has said which pods belong here. Of one that messages spoke of meanwhile they know better."""
        for pod in sorted(pods, key=lambda pod: pod.metadata.creation_timestamp or ""):
            if ref_of(pod).uid not in self._heard_of:
                self.take(pod)
                self._reporter.of_store(ref_of(pod).uid)
        self._complete = True
        self._heard_of.clear()
        self.statuses.publish()

    def all_known(self, directories: Iterable[PodUid], *, is_disowned: Callable[[PodRef], bool] | None = None) -> None:
        """Every pod that belongs here has come: from now on others of ours are orphans.

        Args:
            directories: the pods that have files on the node. An agent that was killed in the middle of a removal
                leaves such, when nothing of the pod is in the runtime any more.
            is_disowned: with a store that may not know all pods, see `edged.inquiry`.
        """
        self.orphans.look_for(directories, is_disowned=is_disowned)

    def connected(self) -> None:
        """The cloud is there: what may have failed for want of it is tried again at once."""
        self.rounds.connected()

    def take(self, pod: Pod) -> None:
        """A pod is wanted like this. The echo of a status that was reported is no new wish (kubelet's reconcile).

        One that comes again while its former life is being removed begins when that is over, as with a kubelet.
        """
        uid = ref_of(pod).uid
        self._hear_of(uid)
        known = self.pods.get(uid)
        if (known is not None and known.removed) or self.orphans.get(uid) is not None:
            self.pods.hold(pod)
            return
        former = self._former(pod)
        if former is not None:
            self._drop(former)
            self.pods.hold(pod, behind=former.ref.uid)
            return
        if known is None and not _was_admitted(pod) and self._second_look.holds(pod):
            return
        ended = known is not None and ends(known.pod, pod)
        echo = known is not None and not ended and _same_wish(known.pod, pod)
        record = self.pods.put(pod)
        if known is None:
            self._end_namesakes(record)
        self._reporter.track(record.ref, pod)
        if ended:
            self._reporter.report(uid, record.pod.status)
        if not echo:
            self._admit(record, new=known is None)
        self.statuses.recompute(record)
        if not echo:
            self.rounds.want(record)

    def _admit(self, record: PodRecord, *, new: bool) -> None:
        """A pod that has been here before (its status has a start) is not asked again whether there is room, as it may
        well run; but no pod may become one that no node could run.

        Pods that are ending make room for others: a kubelet would refuse the successor for good.
        """
        if record.ending or is_terminal(record.pod):
            return
        begins = new and not _was_admitted(record.pod)
        verdict = invalid(record.pod)
        if verdict is not None:
            verdict = replace(verdict, refused=begins)
        elif begins:
            others = [r.pod for r in self.pods if r is not record and not r.ending and not is_terminal(r.pod)]
            verdict = refusal(record.pod, others, self._place())
        if verdict is not None and self.end(record.ref.uid, verdict):
            self._events.refused(record.pod, verdict.reason, verdict.message)

    def _former(self, pod: Pod) -> PodRecord | None:
        """What runs yet of a static pod whose file has changed: it has to be gone first, as with a kubelet.

        The two want the same ports and directories of the node.
        """
        if not is_static(pod):
            return None
        others = self.pods.named(pod.metadata.namespace, pod.metadata.name)
        return next((other for other in others if other.ref.uid != pod.metadata.uid), None)

    def _end_namesakes(self, record: PodRecord) -> None:
        """A cluster has one pod of a name: a later one says that the earlier is gone, should nobody else say so.

        A cloud that lost its objects makes them anew, and never deletes the old ones.
        """
        ref, made = record.ref, record.pod.metadata.creation_timestamp or ""
        self.pods.drop_held(ref.namespace, ref.name)
        for other in self.pods.named(ref.namespace, ref.name):
            if other is not record and not other.removed and (other.pod.metadata.creation_timestamp or "") <= made:
                _log.info("pod %s: another of its name has come", other.ref)
                self._drop(other)

    def end(self, uid: PodUid, verdict: Verdict) -> bool:
        """The node itself ends a pod for good; see `edged.pods.verdict`. The first verdict stands.

        Nothing happens to a pod that has ended already, or that the cloud ends: whether something does is the answer.
        """
        record = self.pods.get(uid)
        if record is None or record.ending or is_terminal(record.pod):
            return False
        _log.warning("pod %s is ended: %s: %s", record.ref, verdict.reason, verdict.message)
        record.verdict = verdict
        self.rounds.want(record)
        return True

    def staying(self) -> list[Pod]:
        """The pods that are not ending."""
        return [record.pod for record in self.pods if not record.ending]

    def unended(self) -> list[Pod]:
        """The pods of which something may run yet, those among them that are ending."""
        return [record.pod for record in self.pods if not self.has_ended(record.ref.uid)]

    def has_ended(self, uid: PodUid) -> bool:
        """Whether nothing of a pod runs any more."""
        record = self.pods.get(uid)
        return record is None or record.killed or is_terminal(record.pod)

    def end_in_time(self, uid: PodUid, verdict: Verdict) -> None:
        """End a pod for good, also one that is ending: why it does stays, but it gets no more than this verdict's grace
        period from now on (a kubelet's pod worker shortens it so).
        """
        if self.end(uid, verdict):
            return
        record = self.pods.get(uid)
        if record is not None and verdict.grace is not None and not self.has_ended(uid):
            self.rounds.hurry(record, verdict.grace)

    def evict(self, uid: PodUid, message: str, grace: int = 1, *, disruption: bool = False) -> None:
        """A pod takes more than it may, or is ended for the node's sake: it goes for good (kubelet's evictPod).

        Args:
            uid: of the pod.
            message: why, for people.
            grace: seconds that it gets; unless given as few as a kubelet gives.
            disruption: whether it is not the pod's own fault, see `Verdict`.
        """
        pod = self._pod_of(uid)
        if self.end(uid, Verdict(EVICTED, message, grace, disruption=disruption)) and pod is not None:
            self._events.evicted(pod, message)

    def _overdue(self, uid: PodUid, verdict: Verdict) -> None:
        pod = self._pod_of(uid)
        if self.end(uid, verdict) and pod is not None:
            self._events.overdue(pod, verdict.message)

    def remove(self, namespace: str, name: str, uid: str, grace: int | None = None) -> None:
        """The cloud has deleted a pod for good; without a uid: whatever has the name.

        `grace` is the deletion's grace period in seconds, when it says one: 0 of a forced deletion.
        """
        self._hear_of(PodUid(uid))
        self.pods.drop_held(namespace, name, uid)
        for record in self.pods.named(namespace, name):
            if uid in ("", record.ref.uid):
                if grace is not None:
                    metadata = replace(record.pod.metadata, deletion_grace_period_seconds=grace)
                    record.pod = replace(record.pod, metadata=metadata)
                self._drop(record)

    def dependency_changed(self, kind: str, namespace: str, name: str) -> None:
        """A configmap or secret has changed: the files of the pods that mount it follow."""
        for record in self.pods.using(kind, namespace, name):
            if not record.ending:
                self.rounds.want(record)

    @property
    def node(self) -> NodeView:
        """What statuses take from the node."""
        return self.statuses.node

    def node_changed(self, view: NodeView) -> None:
        """The node has other addresses, or its runtime another name."""
        self.statuses.node_changed(view)

    def observe(self, seen: Seen) -> None:
        """A pod was looked at. While a worker is at it, what was seen counts when he is done: most is his doing."""
        record = self.pods.get(seen.facts.ref.uid)
        if record is None or seen.at < record.facts_at:
            return
        facts = with_exchanged(seen.facts, record.exchanged)
        changed = record.facts != facts
        record.facts, record.facts_at = facts, seen.at
        if changed:
            self.statuses.recompute(record)
            if not self.rounds.pool.working(record.ref.uid):
                self.rounds.want(record)

    def relisted(self, relisted: Relisted) -> None:
        """The runtime was looked at."""
        for seen in relisted.changed:
            self.observe(seen)
        for record in self.pods:
            if not record.looked_at and record.ref.uid not in relisted.glances:
                record.facts_at = relisted.at
                self.statuses.recompute(record)
        for ref in self.orphans.found(relisted.glances, self.pods):
            _log.info("removing %s: no pod accounts for it", ref)
            self.rounds.remove(ref)

    def _drop(self, record: PodRecord) -> None:
        """Nothing of the pod is to stay, and nobody is to be told of it any more."""
        record.removed = True
        self._reporter.forget(record.ref.uid)
        self.probes.follow(record.pod, record.facts, going=True)
        self.rounds.want(record)

    def _pod_of(self, uid: PodUid) -> Pod | None:
        record = self.pods.get(uid)
        return record.pod if record is not None else None

    def health_changed(self, uid: PodUid) -> None:
        """A probe says something else than before, or a postStart hook or a pull is through: the status changes at
        once, and maybe a container has to end, or the next one may begin.
        """
        record = self.pods.get(uid)
        if record is not None:
            self.statuses.recompute(record)
            self.rounds.want(record)

    def _hear_of(self, uid: PodUid) -> None:
        if not self._complete:
            self._heard_of.add(uid)

    def gone(self, record: PodRecord | None, uid: PodUid) -> None:
        """Nothing of a pod is left on the node. One of its uid or name that was held may begin."""
        if record is not None:
            self._forget(record)
        self.orphans.removed(uid)
        again = self.pods.release(uid)
        if again is not None:
            self.take(again)

    def _forget(self, record: PodRecord) -> None:
        uid = record.ref.uid
        self.pods.forget(uid)
        self.rounds.forget(uid)
        self._reporter.forget(uid)
        self.probes.forget(uid)
        self._deadlines.forget(uid)
        self.statuses.publish()
        _log.info("pod %s is gone", record.ref)


def _was_admitted(pod: Pod) -> bool:
    """Whether nobody has to ask if a pod may run here: it has begun or ended before, or is to end."""
    return pod.metadata.deletion_timestamp is not None or is_terminal(pod) or bool(pod.status.start_time)


def _same_wish(known: Pod, pod: Pod) -> bool:
    """Whether two states of one pod ask for the same."""
    meta = replace(pod.metadata, resource_version=known.metadata.resource_version)
    return known.spec == pod.spec and known.metadata == meta
