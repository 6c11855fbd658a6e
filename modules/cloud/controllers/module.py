"""The module controllers."""

import logging
from collections.abc import Callable, Sequence
from enum import Enum, auto
from http import HTTPStatus
from typing import ClassVar, Final

import msgspec

from beehive.clock import Timer
from beehive.errors import BeehiveError
from beehive.message import Message
from beehive.module import Module
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.types.times import format_micro_time, seconds
from modules.cloud import api_messages
from modules.cloud.api_messages import Verb
from modules.cloud.apiserver.endpoints.subscriptions import Subscription, Subscriptions
from modules.cloud.apiserver.fencing import NAME
from modules.cloud.apiserver.namespaces import SYSTEM_NAMESPACE
from modules.cloud.client.calls import ApiCall, ApiResult, JsonObject
from modules.cloud.controllers import certificate_request
from modules.cloud.controllers.certificate_request import SignClient
from modules.cloud.controllers.engine import Engine
from modules.cloud.controllers.registry import ALL, ALONE, CONTROLLERS, MADE
from modules.cloud.controllers.work_meter import WorkMeter
from modules.cloud.coordination.known_cloudcores import Duty, KnownCloudcores
from modules.cloud.storage.watch_history import WatchQuery, WatchStart

_log = logging.getLogger(__name__)

_SECONDS: Final = 30.0
"""For an answer of the API server."""
_AGAIN: Final = 1.0
_LOOK: Final = 2.0
"""Seconds between two looks at the living cloudcores, where several share the database."""


class _Known(Enum):
    """The objects that are listed."""

    NOTHING = auto()
    """No kind, or not all of those with controllers."""
    OWNERS = auto()
    """The objects with controllers. Those that read other kinds have none yet."""
    SOME_READ = auto()
    """These, and not all of what their controllers read."""
    ALL = auto()


class Controllers(Module):
    """The module that runs the controllers of Deployments, Jobs and their likes in the embedded cloud.

    It reads the API server's objects in its process by subscriptions, and writes by calls, like any client. Without an
    object whose controller reads them it reads no pods. Of several cloudcores with one database, one runs the
    controllers, and its writes are fenced (`modules.cloud.apiserver.fencing`).

    Args:
        subscriptions: to the changes of objects.
        known: the live cloudcores.
        may_be_several: whether others may share the database.
        meter: measures the work.
        sign: signs certificate requests; None: nobody does.
    """

    name: ClassVar[str] = "controllers"
    group: ClassVar[str] = "controllers"

    def __init__(
        self,
        subscriptions: Subscriptions,
        known: KnownCloudcores,
        meter: WorkMeter | None = None,
        *,
        may_be_several: bool,
        sign: SignClient | None = None,
    ) -> None:
        super().__init__()
        signing = {} if sign is None else {certificate_request.KIND: certificate_request.reconciler(sign)}
        self._alone = {**ALONE, **signing}
        """The controllers that read no other kind."""
        self._meter = meter
        self._subscriptions = subscriptions
        self._known = known
        self._may_be_several = may_be_several
        self._fence = ""
        self._engine: Engine | None = None
        self._open: list[Subscription] = []
        self._known_objects = _Known.NOTHING
        self._is_woken = False
        self._timer: Timer | None = None
        self._is_claiming = False

    def on_start(self) -> None:
        """Claim the controllers, if they are this cloudcore's."""
        if self._may_be_several:
            self.every(_LOOK, self._seek)
        self._seek()

    def on_stop(self) -> None:
        """End the subscriptions."""
        self._end()

    def _seek(self) -> None:
        """Run the controllers if they are this cloudcore's, and do not if they are not."""
        is_own = self._known.owns(Duty.CONTROLLERS) if self._known.alive else not self._may_be_several
        if not is_own:
            if self._engine is not None:
                _log.info("another cloudcore runs the controllers")
            self._end()
        elif self._engine is None and not self._is_claiming:
            self._is_claiming = True
            self._call(_lease_call("get", name=NAME), self._claim)

    def _claim(self, result: ApiResult) -> None:
        """Write the Lease, which locks former owners out."""
        live = result.object
        if live is None and (result.refusal or {}).get("code") != HTTPStatus.NOT_FOUND:
            self._claim_again(result)
            return
        now = self.clock.now()
        body = _lease(self._known.own, live, now)
        verb = "create" if live is None else "update"
        self._call(_lease_call(verb, name=NAME if live else "", body=body), self._claimed)

    def _claimed(self, result: ApiResult) -> None:
        if result.object is None:
            self._claim_again(result)
            return
        self._is_claiming = False
        spec = result.object["spec"]
        self._fence = f"{spec['holderIdentity']}/{spec['leaseTransitions']}"
        self._begin()

    def _claim_again(self, result: ApiResult) -> None:
        _log.warning("the controllers are not run yet: %s", (result.refusal or {}).get("message"))
        self.after(_AGAIN, self._unclaimed)

    def _unclaimed(self) -> None:
        self._is_claiming = False
        self._seek()

    def _begin(self) -> None:
        """List the objects with controllers, and follow their changes from before that on."""
        self._end()
        self._engine = Engine({**ALL, **self._alone}, self._perform, self.clock, self._begin_again, self._meter)
        self._follow((*CONTROLLERS, *self._alone), self._owners_known)

    def _owners_known(self) -> None:
        self._known_objects = _Known.OWNERS
        self._handle_changes()

    def _read_all(self) -> None:
        """Read the pods and nodes as well, once there is an object whose controller reads them."""
        is_listed = self._known_objects is _Known.OWNERS
        if self._engine is not None and is_listed and any(map(self._engine.view.keys, CONTROLLERS)):
            self._known_objects = _Known.SOME_READ
            self._follow(MADE, self._all_known)

    def _all_known(self) -> None:
        if self._engine is not None:
            self._known_objects = _Known.ALL
            self._engine.enqueue_all()
            self._handle_changes()  # kinds were listed one after the other, and owners may have changed meanwhile

    def _begin_again(self) -> None:
        """List all objects again: the outcome of a write is unknown, or another cloudcore runs the controllers."""
        self._end()
        self.after(_AGAIN, self._seek)

    def _end(self) -> None:
        if self._engine is not None:
            self._engine.stop()
        for subscription in self._open:
            subscription.wake(None)
            self._subscriptions.unsubscribe(subscription)
        self._engine, self._open, self._known_objects = None, [], _Known.NOTHING
        self._set_timer(None)

    def _follow(self, kinds: Sequence[str], done: Callable[[], None]) -> None:
        """Subscribe to the changes of kinds, and take their present objects, one kind after the other."""
        engine = self._engine
        for kind in kinds:
            subscription = self._subscriptions.subscribe(kind)
            subscription.wake(self._wake)
            self._open.append(subscription)

        def ask(rest: Sequence[str]) -> None:
            if not rest:
                done()
                return
            query = WatchQuery(rest[0])
            request = self.message(api_messages.RESOURCE, Verb.WATCH, query, source=api_messages.SOURCE)
            self.request(api_messages.MODULE, request, _SECONDS, lambda answer: listed(rest, answer))

        def listed(rest: Sequence[str], answer: Message | BeehiveError) -> None:
            start = answer.content_as(WatchStart) if isinstance(answer, Message) else None
            if engine is None or self._engine is not engine:
                return
            if start is None or start.refusal is not None:
                self._begin_again()
                return
            for changed in start.changes:
                engine.handle(changed)
            ask(rest[1:])

        ask(kinds)

    def _wake(self) -> None:
        """Take changes soon; called on the API server's thread."""
        if not self._is_woken:
            self._is_woken = True
            self.call_soon(self._handle_changes)

    def _handle_changes(self) -> None:
        """Take the changes that wait, and look at the workloads that they concern.

        Owners come after their dependents: a pod that lost its owner must not be adopted by an owner that has been
        deleted before.
        """
        self._is_woken = False
        engine = self._engine
        if engine is None:
            return
        for subscription in reversed(self._open):
            changes, has_ended = subscription.drain()
            if has_ended:  # too many waited, or the API server has started over
                self._begin_again()
                return
            for changed in changes:
                engine.handle(changed)
        self._read_all()
        self._run()

    def _run(self) -> None:
        """Reconcile the objects that are due, and set the timer for the next one."""
        if self._engine is None or self._known_objects not in (_Known.OWNERS, _Known.ALL):
            return
        at = self._engine.run()
        self._set_timer(None if at is None else max(0.0, at - self.clock.now()))

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.after(seconds, self._run)

    def _perform(self, call: ApiCall, then: Callable[[ApiResult], None]) -> None:
        """Make a fenced call; the engine goes on when it is answered."""

        def answered(result: ApiResult) -> None:
            then(result)
            self._run()

        self._call(msgspec.structs.replace(call, fence=self._fence), answered)

    def _call(self, call: ApiCall, then: Callable[[ApiResult], None]) -> None:
        def answered(answer: Message | BeehiveError) -> None:
            if isinstance(answer, BeehiveError):
                then(ApiResult(refusal=ApiStatusError(504, str(answer)).status()))
            else:
                then(answer.content_as(ApiResult))

        request = self.message(api_messages.RESOURCE, Verb.CALL, call, source=api_messages.SOURCE)
        self.request(api_messages.MODULE, request, _SECONDS, answered)


def _lease_call(verb: str, name: str, body: JsonObject | None = None) -> ApiCall:
    return ApiCall(
        verb=verb,
        api_version="coordination.k8s.io/v1",
        plural="leases",
        namespace=SYSTEM_NAMESPACE,
        name=name,
        body=body,
    )


def _lease(holder: str, live: JsonObject | None, now: float) -> JsonObject:
    """Return the Lease of a cloudcore that takes over; it is not renewed, as nobody waits for its end."""
    before = (live or {}).get("spec") or {}
    moment = format_micro_time(seconds(now))
    transitions = before.get("leaseTransitions")
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": live["metadata"] if live else {"name": NAME, "namespace": SYSTEM_NAMESPACE},
        "spec": {
            "holderIdentity": holder,
            "acquireTime": moment,
            "renewTime": moment,
            "leaseTransitions": (transitions if isinstance(transitions, int) else 0) + 1,
        },
    }
