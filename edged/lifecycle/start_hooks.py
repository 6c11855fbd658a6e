"""The postStart hooks that run now, each on an actor of its own: no worker waits for them.

The turn of a pod in which a container with such a hook is started ends there; the end of the hook asks for the next
one. Until then the container counts as not started, and those after it wait (kubelet's startContainer blocks its pod's
worker all that time).
"""

import logging
import threading
from collections.abc import Callable, Collection

from beehive import Actor, Runtime
from edged.api.probes import LifecycleHandler
from edged.lifecycle.errors import HookError, HookInterruptedError
from edged.lifecycle.hooks import Hooks, Subject
from edged.pods.model import ContainerId, HookFacts, PodUid

_log = logging.getLogger(__name__)

_NOTHING = HookFacts()


class StartHooks:
    """Thread-safe: workers begin hooks, the edged module reads what became of them.

    Args:
        actors: to run them on.
        hooks: runs one.
        over: told, on any thread, whenever a hook of a pod has ended.
    """

    def __init__(self, actors: Runtime, hooks: Hooks, over: Callable[[PodUid], None]) -> None:
        self._actors = actors
        self._hooks = hooks
        self._over = over
        self._lock = threading.Lock()
        self._facts: dict[PodUid, HookFacts] = {}

    def facts(self, uid: PodUid) -> HookFacts:
        """What is known of a pod's hooks by now."""
        with self._lock:
            return self._facts.get(uid, _NOTHING)

    def begin(self, hook: LifecycleHandler, subject: Subject) -> None:
        """Run the hook of a container that has just been started."""
        with self._lock:
            known = self._facts.get(subject.uid, _NOTHING)
            self._facts[subject.uid] = HookFacts(known.running | {subject.id}, known.failed)
        self._actors.start(_Runner, name="hook").ref.tell(lambda: self._run(hook, subject))

    def keep_only(self, uid: PodUid, containers: Collection[ContainerId]) -> None:
        """Of a pod only these containers run: what failed of others does not matter any more."""
        with self._lock:
            known = self._facts.get(uid)
            if known is not None:
                failed = {each: text for each, text in known.failed.items() if each in containers}
                self._facts[uid] = HookFacts(known.running, failed)

    def forget(self, uid: PodUid) -> None:
        """The pod is gone."""
        with self._lock:
            self._facts.pop(uid, None)

    def _run(self, hook: LifecycleHandler, subject: Subject) -> None:
        failure: str | None = None
        try:
            self._hooks.after_start(hook, subject)
        except HookInterruptedError as error:
            _log.debug("%s", error)
        except HookError as error:
            failure = str(error)
        except Exception as error:  # noqa: BLE001 - a bug; the container is killed as for any other failure
            _log.exception("the postStart hook of container %s failed in a way nobody foresaw", subject.container.name)
            failure = type(error).__name__
        with self._lock:
            known = self._facts.get(subject.uid)
            if known is not None:
                failed = known.failed if failure is None else {**known.failed, subject.id: failure}
                self._facts[subject.uid] = HookFacts(known.running - {subject.id}, failed)
        self._over(subject.uid)


class _Runner(Actor):
    """Runs one hook."""

    def on_receive(self, run: Callable[[], None]) -> None:
        run()
        self.stop()
