"""Pulls of images, each on an actor of its own: no worker waits for one, however long it takes.

A pod's turn asks for an image and ends; the end of the pull asks for the pod's next turn, which finds the outcome here.
Who asks for the same image with the same credentials while it is being pulled shares that pull. So many run at once as
the configuration says (`serializeImagePulls`, `maxParallelImagePulls`), in the order in which they were asked for, and
begin no more often than `registryPullQPS` allows. A kubelet refuses what comes faster (`pull QPS exceeded`); here it
waits, for a node that starts twenty pods has done nothing wrong.
"""

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from beehive import Actor, Runtime
from beehive.rate import TokenBucket
from edged.cri.contract import ContainerRuntime
from edged.cri.errors import CriError
from edged.images.keyring import Credentials
from edged.images.limits import PullLimits
from edged.pods.model import PodUid
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

FRESH_SECONDS = 60.0
"""How long an outcome is kept for the pod that asked: it is taken in the next turn, or nobody wants it any more."""


class Wish(NamedTuple):
    """An image, and what its registry may be shown; in this order, or nothing."""

    image: str
    credentials: tuple[Credentials, ...] = ()


class Outcome(NamedTuple):
    """What came of a pull."""

    reference: str = ""
    """How the runtime calls the image."""
    error: Exception | None = None
    seconds: float = 0.0
    """That it took, without waiting for its turn."""
    at: float = 0.0
    """When it was there, monotonic seconds."""


class _Pull:
    __slots__ = ("sandbox", "waiters", "wish")

    def __init__(self, wish: Wish, sandbox: cri.PodSandboxConfig) -> None:
        self.wish = wish
        self.sandbox = sandbox
        self.waiters: dict[PodUid, None] = {}


class Pulls:
    """Thread-safe: workers ask, and the edged module says which pods are gone.

    Args:
        actors: to run pulls on, and time.
        runtime: pulls.
        limits: how much at once.
        over: told, on any thread, whenever a pull that a pod waits for is through.
    """

    def __init__(
        self, actors: Runtime, runtime: ContainerRuntime, limits: PullLimits, over: Callable[[PodUid], None]
    ) -> None:
        self._actors = actors
        self._runtime = runtime
        self._parallel = limits.parallel
        self._bucket = TokenBucket(limits.rate, limits.burst)
        self._over = over
        self._lock = threading.Lock()
        self._known: dict[Wish, _Pull] = {}
        self._waiting: deque[_Pull] = deque()
        self._running = 0
        self._held = False
        self._outcomes: OrderedDict[tuple[PodUid, str], Outcome] = OrderedDict()
        self._closed = False

    def take(self, uid: PodUid, image: str) -> Outcome | None:
        """What came of the pull of an image that the pod asked for, once; None when there is nothing (new) to say."""
        with self._lock:
            outcome = self._outcomes.pop((uid, image), None)
        fresh = outcome is not None and self._actors.clock.monotonic() - outcome.at <= FRESH_SECONDS
        return outcome if fresh else None

    def ask(self, uid: PodUid, wish: Wish, sandbox: cri.PodSandboxConfig) -> None:
        """Have an image pulled for a pod, or share a pull that is under way or waits."""
        with self._lock:
            pull = self._known.get(wish)
            if pull is None:
                pull = self._known[wish] = _Pull(wish, sandbox)
                self._waiting.append(pull)
            pull.waiters[uid] = None
            begun = self._begin()
        self._start(begun)

    def forget(self, uid: PodUid) -> None:
        """The pod is gone: what only it waits for does not begin any more."""
        with self._lock:
            for key in [key for key in self._outcomes if key[0] == uid]:
                del self._outcomes[key]
            for pull in self._known.values():
                pull.waiters.pop(uid, None)
            for pull in [pull for pull in self._waiting if not pull.waiters]:
                self._waiting.remove(pull)
                del self._known[pull.wish]

    def close(self) -> None:
        """Begin nothing more."""
        with self._lock:
            self._closed = True
            self._waiting.clear()

    def _begin(self) -> list[_Pull]:
        """Take from the queue what may begin now; the lock is held."""
        begun: list[_Pull] = []
        while self._waiting and not self._held and (not self._parallel or self._running < self._parallel):
            wait = self._bucket.take(self._actors.clock.monotonic())
            if wait > 0:
                self._held = True
                self._actors.clock.after(wait, self._go_on)
                break
            self._running += 1
            begun.append(self._waiting.popleft())
        return begun

    def _start(self, pulls: Sequence[_Pull]) -> None:
        for pull in pulls:
            self._actors.start(_Puller, name="edged/puller").ref.tell(lambda pull=pull: self._run(pull))

    def _go_on(self) -> None:
        with self._lock:
            self._held = False
            begun = [] if self._closed else self._begin()
        self._start(begun)

    def _run(self, pull: _Pull) -> None:
        outcome = self._pull(pull)
        with self._lock:
            self._running -= 1
            del self._known[pull.wish]
            waiters = list(pull.waiters)
            for uid in waiters:
                self._outcomes[uid, pull.wish.image] = outcome
            self._drop_old(outcome.at)
            begun = [] if self._closed else self._begin()
        self._start(begun)
        for uid in waiters:
            self._over(uid)

    def _pull(self, pull: _Pull) -> Outcome:
        """With each of the credentials until one is taken; the last refusal is what is told, as it is the most general
        one's.
        """
        clock = self._actors.clock
        begin = clock.monotonic()
        spec = cri.ImageSpec(image=pull.wish.image)
        error: Exception | None = None
        for credentials in pull.wish.credentials or (None,):
            auth = None if credentials is None else cri.AuthConfig(**credentials._asdict())
            try:
                reference = self._runtime.pull_image(spec, auth, pull.sandbox)
            except CriError as failure:
                error = failure
            except Exception as failure:  # noqa: BLE001 - a bug must not keep the others from being pulled
                _log.exception("the pull of image %s failed in a way nobody foresaw", pull.wish.image)
                error = failure
            else:
                return Outcome(reference, None, clock.monotonic() - begin, clock.monotonic())
        return Outcome("", error, clock.monotonic() - begin, clock.monotonic())

    def _drop_old(self, now: float) -> None:
        while self._outcomes:
            key, outcome = next(iter(self._outcomes.items()))
            if now - outcome.at <= FRESH_SECONDS:
                return
            del self._outcomes[key]


class _Puller(Actor):
    """Runs one pull."""

    def on_receive(self, run: Callable[[], None]) -> None:
        run()
        self.stop()
