"""PostStartHooks: runs postStart hooks without a waiting worker."""

import logging
import threading
from collections.abc import Collection

from beehive import Runtime
from edged.errors import HookError, HookInterruptedError
from edged.lifecycle.hooks import HookRunner, HookTarget
from edged.lifecycle.waits import HOOK
from edged.pods.model import ContainerId, HookFacts, PodUid
from edged.sync_events import PostStartHookEnded, SyncEvents
from modules.apimachinery.types.probes import LifecycleHandler

_log = logging.getLogger(__name__)

_NOTHING = HookFacts()


class PostStartHooks:
    """The runner of postStart hooks, each on an actor of its own.

    The sync of a pod that starts a container with such a hook ends there; the end of the hook queues the pod again.
    Until then the container counts as not started, and the containers after it wait (kubelet's startContainer blocks
    its pod's worker meanwhile). Thread-safe: workers begin hooks, the edged module takes and reads their results.

    Args:
        actors: run the hooks.
        hooks: runs one hook.
        ended: takes the results, and gives them to `end`.
    """

    def __init__(self, actors: Runtime, hooks: HookRunner, ended: SyncEvents[PostStartHookEnded]) -> None:
        self._actors = actors
        self._hooks = hooks
        self._ended = ended
        self._lock = threading.Lock()
        self._facts: dict[PodUid, HookFacts] = {}

    def facts(self, uid: PodUid) -> HookFacts:
        """Return the results of a pod's hooks."""
        with self._lock:
            return self._facts.get(uid, _NOTHING)

    def begin(self, hook: LifecycleHandler, subject: HookTarget) -> None:
        """Run the hook of a container that has just been started, and return immediately."""
        with self._lock:
            known = self._facts.get(subject.uid, _NOTHING)
            self._facts[subject.uid] = HookFacts(known.running | {subject.id}, known.failed)
        try:
            self._actors.call(lambda: self._run(hook, subject), name=HOOK)
        except RuntimeError as error:  # there can be no more threads
            self._ended.post(PostStartHookEnded(subject.uid, subject.id, str(error)))

    def end(self, ended: PostStartHookEnded) -> None:
        """Take the result of a hook; that of a pod that was removed is dropped."""
        with self._lock:
            known = self._facts.get(ended.uid)
            if known is not None:
                failed = known.failed if ended.failure is None else {**known.failed, ended.container: ended.failure}
                self._facts[ended.uid] = HookFacts(known.running - {ended.container}, failed)

    def keep_only(self, uid: PodUid, containers: Collection[ContainerId]) -> None:
        """Drop the hook failures of a pod's containers that no longer run; `containers` are the running ones."""
        with self._lock:
            known = self._facts.get(uid)
            if known is not None:
                failed = {each: text for each, text in known.failed.items() if each in containers}
                self._facts[uid] = HookFacts(known.running, failed)

    def forget_pod(self, uid: PodUid) -> None:
        """Drop the results of a pod that is removed from the node."""
        with self._lock:
            self._facts.pop(uid, None)

    def _run(self, hook: LifecycleHandler, subject: HookTarget) -> None:
        failure: str | None = None
        try:
            self._hooks.run_post_start(hook, subject)
        except HookInterruptedError as error:
            _log.debug("%s", error)
        except HookError as error:
            failure = str(error)
        except Exception as error:  # noqa: BLE001 - a bug; the container is killed as for any other failure
            _log.exception("the postStart hook of container %s failed unexpectedly", subject.container.name)
            failure = type(error).__name__
        self._ended.post(PostStartHookEnded(subject.uid, subject.id, failure))
