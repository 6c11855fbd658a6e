"""Image pulls in the background."""

import logging
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from functools import partial
from typing import Final

import msgspec

from beehive import Runtime
from beehive.clock import Timer
from beehive.rate import TokenBucket
from edged.cri.contract import ContainerRuntime
from edged.cri.errors import CriError
from edged.images.keyring import Credentials
from edged.images.progress import PullProgress, progress_of
from edged.pods.model import PodUid
from edged.settings import PullLimits
from edged.sync_events import PodHealthChanged, SyncEvents
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

FRESH_SECONDS = 60.0
"""Seconds that a result is kept: the pod's next sync takes it, or no sync needs it."""
TURN_SECONDS = 60.0
"""Seconds that a running pull keeps pulls from other registries waiting."""
MOST_SLOW = 8
"""Pulls that run beyond the limit because they take longer."""
MOST_SLOW_OF_NAMESPACE = 4
"""Running pulls of one namespace, unless the limit allows more: a registry may have any number of names."""

FIRST_SECONDS: Final = 30.0
"""Age of a pull at the first question. The time to the next question doubles."""
LONGEST_SECONDS: Final = 600.0
"""Between two questions: the spam filter of events drops an object's events that are more frequent than every 300 s."""


class PullRequest(msgspec.Struct, frozen=True):
    """An image and the credentials to try, in this order; without any, the pull is anonymous."""

    image: str
    credentials: tuple[Credentials, ...] = ()


class PullResult(msgspec.Struct, frozen=True):
    """The result of a pull."""

    reference: str = ""
    """The runtime's reference of the image."""
    error: Exception | None = None
    seconds: float = 0.0
    """Duration of the pull, without its time in the queue."""
    at: float = 0.0
    """When it ended, in monotonic seconds."""


class _Pull:
    __slots__ = ("began", "progress", "request", "sandbox", "waiters")

    def __init__(self, request: PullRequest, sandbox: cri.PodSandboxConfig) -> None:
        self.request = request
        self.sandbox = sandbox
        self.waiters: dict[PodUid, None] = {}
        self.progress: PullProgress | None = None
        self.began = 0.0

    @property
    def registry(self) -> str:
        """Name of the registry."""
        return self.request.image.partition("/")[0]

    @property
    def namespace(self) -> str:
        """Namespace of the pod that asked first."""
        return str(self.sandbox.metadata.namespace)


class ImagePuller:
    """The puller of images, each on an actor of its own, so that no worker waits for a pull. Thread-safe.

    A pod's sync requests an image and ends; the end of the pull starts the pod's next sync, which takes the result.
    Requests for the same image and credentials share one pull. The number of running pulls is limited
    (`serializeImagePulls`, `maxParallelImagePulls`), and so is their rate (`registryPullQPS`), in the order of the
    requests. A kubelet refuses requests beyond the rate (`pull QPS exceeded`); here they wait, because starting twenty
    pods at once is not an error. And no registry may hold up the others by sending slowly: a pull that has run for a
    minute counts for its own registry only, and `MOST_SLOW` such pulls may run beyond the limit, half of them of one
    namespace. Of the waiting pulls, the first of the namespace with the fewest running ones is next, and of several
    namespaces, of the one whose last turn is the longest ago.

        puller.request(uid, PullRequest("docker.io/library/nginx:1.29"), sandbox)
        puller.take_result(uid, "docker.io/library/nginx:1.29")  # None until the pull has ended

    Args:
        actors: runs the pulls, and has the clock.
        runtime: pulls.
        limits: number and rate of pulls.
        pulled: takes the pods whose pull has ended, or has taken long and has got on.
    """

    def __init__(
        self, actors: Runtime, runtime: ContainerRuntime, limits: PullLimits, pulled: SyncEvents[PodHealthChanged]
    ) -> None:
        self._actors = actors
        self._runtime = runtime
        self._parallel = limits.parallel
        self._bucket = TokenBucket(limits.rate, limits.burst)
        self._pulled = pulled
        self._lock = threading.Lock()
        self._known: dict[PullRequest, _Pull] = {}
        self._waiting: deque[_Pull] = deque()
        self._running: list[_Pull] = []
        self._begun = 0
        self._turns: dict[str, int] = {}
        """The number of the last pull of each namespace that has any."""
        self._delayed = False
        self._awaits_turn = False
        self._results: OrderedDict[tuple[PodUid, str], PullResult] = OrderedDict()
        self._closed = False

    def pop_result(self, uid: PodUid, image: str) -> PullResult | None:
        """Return and drop the result of the pod's pull of an image; None without a fresh one."""
        with self._lock:
            result = self._results.pop((uid, image), None)
        fresh = result is not None and self._actors.clock.monotonic() - result.at <= FRESH_SECONDS
        return result if fresh else None

    def request(self, uid: PodUid, request: PullRequest, sandbox: cri.PodSandboxConfig) -> PullProgress | None:
        """Request an image for a pod, or join a running or waiting pull; return how far that is, if it takes long."""
        with self._lock:
            pull = self._known.get(request)
            if pull is None:
                pull = self._known[request] = _Pull(request, sandbox)
                self._waiting.append(pull)
            pull.waiters[uid] = None
            progress = pull.progress
            started = self._pop_ready()
        self._start(started)
        return progress

    def remove_pod(self, uid: PodUid) -> None:
        """Drop a removed pod's results and requests; a waiting pull that no other pod needs is not started."""
        with self._lock:
            for key in [key for key in self._results if key[0] == uid]:
                del self._results[key]
            for pull in self._known.values():
                pull.waiters.pop(uid, None)
            for pull in [pull for pull in self._waiting if not pull.waiters]:
                self._waiting.remove(pull)
                del self._known[pull.request]
            self._forget_turns()

    def close(self) -> None:
        """Start no more pulls."""
        with self._lock:
            self._closed = True
            self._waiting.clear()

    def _pop_ready(self) -> list[_Pull]:
        """Take the pulls that may start now from the queue; the caller holds the lock."""
        started: list[_Pull] = []
        now = self._actors.clock.monotonic()
        while not (self._closed or self._delayed) and (pull := self._next(now)) is not None:
            wait = self._bucket.reserve(now)
            if wait > 0:
                self._delayed = True
                self._actors.clock.after(wait, self._resume)
                break
            self._waiting.remove(pull)
            self._begun += 1
            self._turns[pull.namespace] = self._begun
            pull.began = now
            self._running.append(pull)
            started.append(pull)
        self._await_turn(now)
        return started

    def _forget_turns(self) -> None:
        """Forget the turns of namespaces without a pull; the caller holds the lock."""
        present = {each.namespace for each in self._known.values()}
        self._turns = {name: turn for name, turn in self._turns.items() if name in present}

    def _next(self, now: float) -> _Pull | None:
        """Return the first waiting pull that the limit lets start."""
        if not self._parallel:
            return self._waiting[0] if self._waiting else None
        slow = sum(now - each.began >= TURN_SECONDS for each in self._running)
        if len(self._running) - min(slow, MOST_SLOW) >= self._parallel:
            return None
        busy = Counter(each.registry for each in self._running)
        owners = Counter(each.namespace for each in self._running)
        most = max(self._parallel, MOST_SLOW_OF_NAMESPACE)
        ready = (
            each for each in self._waiting if busy[each.registry] < self._parallel and owners[each.namespace] < most
        )
        return min(ready, key=lambda each: (owners[each.namespace], self._turns.get(each.namespace, 0)), default=None)

    def _await_turn(self, now: float) -> None:
        """Look again when the next running pull has had its time, if others wait."""
        left = [TURN_SECONDS - (now - each.began) for each in self._running if now - each.began < TURN_SECONDS]
        if self._waiting and left and not self._awaits_turn:
            self._awaits_turn = True
            self._actors.clock.after(min(left), self._turn_ends)

    def _start(self, pulls: Iterable[_Pull]) -> None:
        waiting = deque(pulls)
        while waiting:
            pull = waiting.popleft()
            try:
                self._actors.call(partial(self._run, pull), name="edged/puller")
            except RuntimeError as error:  # there can be no more threads
                waiting += self._end(pull, PullResult(error=error, at=self._actors.clock.monotonic()))

    def _resume(self) -> None:
        with self._lock:
            self._delayed = False
            started = self._pop_ready()
        self._start(started)

    def _turn_ends(self) -> None:
        with self._lock:
            self._awaits_turn = False
            started = self._pop_ready()
        self._start(started)

    def _run(self, pull: _Pull) -> None:
        watch = ProgressWatch(self._actors, self._runtime, self, pull)
        watch.start()
        result = self._pull(pull)
        watch.stop()
        self._start(self._end(pull, result))

    def _end(self, pull: _Pull, result: PullResult) -> list[_Pull]:
        """Give the result to the pods that wait for it; return the pulls that may start now."""
        with self._lock:
            self._running.remove(pull)
            del self._known[pull.request]
            self._forget_turns()
            waiters = list(pull.waiters)
            for uid in waiters:
                self._results[uid, pull.request.image] = result
            self._drop_stale(result.at)
            started = self._pop_ready()
        for uid in waiters:
            self._pulled.post(PodHealthChanged(uid))
        return started

    def record_progress(self, pull: _Pull, progress: PullProgress) -> None:
        """Keep how far a pull is, and start the syncs of its pods."""
        with self._lock:
            pull.progress = progress
            waiters = list(pull.waiters)
        for uid in waiters:
            self._pulled.post(PodHealthChanged(uid))

    def _pull(self, pull: _Pull) -> PullResult:
        """Pull with one of the credentials after the other; after failures return the last error, which belongs to the
        most general credentials.
        """
        clock = self._actors.clock
        begin = clock.monotonic()
        spec = cri.ImageSpec(image=pull.request.image)
        error: Exception | None = None
        for credentials in pull.request.credentials or (None,):
            auth = None if credentials is None else cri.AuthConfig(**credentials._asdict())
            try:
                reference = self._runtime.pull_image(spec, auth, pull.sandbox)
            except CriError as failure:
                error = failure
            except Exception as failure:  # noqa: BLE001 - a bug must not keep the others from being pulled
                _log.exception("the pull of image %s failed unexpectedly", pull.request.image)
                error = failure
            else:
                return PullResult(reference, None, clock.monotonic() - begin, clock.monotonic())
        return PullResult("", error, clock.monotonic() - begin, clock.monotonic())

    def _drop_stale(self, now: float) -> None:
        while self._results:
            key, result = next(iter(self._results.items()))
            if now - result.at <= FRESH_SECONDS:
                return
            del self._results[key]


class ProgressWatch:
    """The watch of one pull from `start` to `stop`. A runtime that does not answer, or does not say it, is asked again.

    Args:
        actors: asks on an actor of its own, and has the clock.
        runtime: answers Status.
        puller: gets the answers, on any thread.
        pull: the pull.
    """

    def __init__(self, actors: Runtime, runtime: ContainerRuntime, puller: ImagePuller, pull: _Pull) -> None:
        self._actors = actors
        self._runtime = runtime
        self._puller = puller
        self._of = pull
        self._lock = threading.Lock()
        self._timer: Timer | None = None
        self._stopped = False

    def start(self) -> None:
        """Begin to wait for the first question."""
        self._wait(FIRST_SECONDS)

    def stop(self) -> None:
        """Ask no more. An answer that is on its way is dropped."""
        with self._lock:
            self._stopped = True
            if self._timer is not None:
                self._timer.cancel()

    def _wait(self, seconds: float) -> None:
        with self._lock:
            if not self._stopped:
                self._timer = self._actors.clock.after(seconds, partial(self._ask_on_actor, seconds))

    def _ask_on_actor(self, waited: float) -> None:
        self._actors.call(partial(self._ask, waited), name="edged/pull-progress")

    def _ask(self, waited: float) -> None:
        try:
            progress = progress_of(self._of.request.image, self._runtime.status(verbose=True).info)
        except CriError:
            progress = None
        with self._lock:
            stopped = self._stopped
        if progress is not None and not stopped:
            self._puller.record_progress(self._of, progress)
        self._wait(min(2 * waited, LONGEST_SECONDS))
