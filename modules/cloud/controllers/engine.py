"""The engine that runs controllers: it looks at the objects that changes concern, and carries out the plans."""

import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from beehive.clock import Clock
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of, uid_of, version_of
from modules.cloud.applications import EDGE_APPLICATION
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.controllers.concerned import concerned_by
from modules.cloud.controllers.event_recorder import EventRecorder
from modules.cloud.controllers.lost_objects import LostObjects
from modules.cloud.controllers.own_writes import breach_of
from modules.cloud.controllers.plan import EventNote, PlannedWrite, ReconcilePlan
from modules.cloud.controllers.view import RefusedWrite, View
from modules.cloud.controllers.work_meter import WorkMeter
from modules.cloud.controllers.work_queue import WorkQueue
from modules.cloud.storage.object_storage import EventType
from modules.cloud.storage.watch_history import ObjectChanged

_log = logging.getLogger(__name__)

Reconcile = Callable[[View, ObjectKey, float], ReconcilePlan]
"""Returns the plan for an object at a time (seconds since the epoch). It is pure: without clock, chance and effects."""
Perform = Callable[[ApiCall, Callable[[ApiResult], None]], None]
"""Makes an API call; the function is called once with the result, later."""

_MOST_AT_ONCE: Final = 64
"""Objects that are looked at before others have their turn on the thread."""
_MOST_CALLS: Final = 64
"""Calls under way after which no more objects are looked at, so that the API server has time for others: a rollout
behind thousands of Services would fill its inbox."""
_STEADY: Final = 100
"""Looks at an object, each with something to do, after which there is a second between them."""
_NOT_AT_ONCE: Final = 1.0
"""Seconds until the next look at an object whose plan names a time that is over; it would be looked at without end."""
_GATHERED: Final = ("Service", EDGE_APPLICATION.key_name)
"""Kinds whose objects rest for a second after a write, so that the changes of a rollout are few looks and writes."""
_NODE: Final = "Node"
"""Whose controller deletes pods against their controllers' will."""
_OTHERS: Final = (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND)
"""Refusals that say that the view was older than the API server's objects."""


class _Execution:
    """The writes of a plan that are under way."""

    def __init__(self, key: ObjectKey, about: JsonObject | None, plan: ReconcilePlan, since: float) -> None:
        self.key = key
        self.about = about
        self.plan = plan
        self.since = since
        """The monotonic seconds of the look that made the plan."""
        self.position = 0
        self.batch = 1
        self.open = 0
        self.has_status = False
        """Whether the status was written, or is being written."""
        self.refused: tuple[PlannedWrite, JsonObject] | None = None
        self.versions: dict[str, int] = {}
        """The newest version of each kind that the writes have made."""
        self.gone: list[PlannedWrite] = []
        """The deletions after which nothing is left."""

    def record_version(self, made: JsonObject) -> None:
        """Note the version of an object that a write has made."""
        kind, version = _key_name(made), int(version_of(made) or 0)
        self.versions[kind] = max(self.versions.get(kind, 0), version)


class Engine:
    """A runner of controllers for one thread.

    An object is not looked at again before the view has all that was written for it: so nothing is made twice, without
    counting expected creations as kube-controller-manager does.

    Args:
        controllers: by the kind whose objects they look at.
        perform: makes the calls.
        clock: the time, and ids for Events.
        lost: called when this cloudcore must not write any more, or does not know what it has written.
        meter: measures the work.
    """

    def __init__(
        self,
        controllers: Mapping[str, Reconcile],
        perform: Perform,
        clock: Clock,
        lost: Callable[[], None],
        meter: WorkMeter | None = None,
    ) -> None:
        self._controllers = controllers
        self._kinds = frozenset(controllers)
        self._perform = perform
        self._clock = clock
        self._lost = lost
        self._events = EventRecorder(clock)
        self.view = View()
        self._lost_objects = LostObjects()
        self.queue = WorkQueue()
        self._meter = meter or WorkMeter()
        self._running: dict[ObjectKey, _Execution] = {}
        self._awaited: dict[ObjectKey, _Execution] = {}
        """The writes that the view must have before an object is looked at again."""
        self._streaks: dict[ObjectKey, int] = {}
        self._breaches: dict[ObjectKey, str] = {}
        """Why the plan for an object was not carried out, until one is: it is logged once."""
        self._calls = 0
        self._is_stopped = False

    def stop(self) -> None:
        """Make no further writes."""
        self._is_stopped = True
        self._meter.idle()

    def handle(self, changed: ObjectChanged) -> None:
        """Take a change of an object, and note whom it concerns."""
        before = self.view.find(key_of(changed.object))
        is_gone = changed.change == EventType.DELETED
        if is_gone:
            is_news, old = self.view.remove(changed.object), None
        else:
            is_news, old = self.view.put(changed.object)
        if is_news:
            self._lost_objects.changed(before, changed.object, self._clock.now(), is_gone=is_gone)
            for key in concerned_by(self.view, changed.object, old, self._kinds):
                self.queue.add(key)

    def enqueue_all(self) -> None:
        """Look at all objects with controllers."""
        for kind in self._controllers:
            for key in sorted(self.view.keys(kind)):
                self.queue.add(key)

    def run(self) -> float | None:
        """Look at objects that are due; return the time of the next one, which may be now. None: there is none, or the
        next ones are looked at after answers.
        """
        if self._is_stopped:
            return None
        self._release_awaited()
        at = self._reconcile_some()
        if not self._is_stopped:
            self._meter.depths = self.queue.depths()
        return at

    def _reconcile_some(self) -> float | None:
        for _ in range(_MOST_AT_ONCE):
            if self._calls >= _MOST_CALLS:
                return None
            key = self.queue.get(self._clock.now())
            if key is None:
                return self.queue.next_time()
            self._reconcile(key)
        return self._clock.now()

    def _reconcile(self, key: ObjectKey) -> None:
        if key in self._running or key in self._awaited:
            return  # it is looked at after that
        about = self.view.find(key)
        now, since = self._clock.now(), self._meter.monotonic()
        plan = self._plan(key, now)
        if plan is None:
            self._meter.ended(key.kind, since)
            self._failed(key, now)
            return
        if not any(write.scale_of for write in plan.writes):
            self.view.scales.pop(key, None)
        plan = self._without_early(plan, now)
        for note in plan.events if about else ():
            self._record(about, note)  # type: ignore[arg-type]
        if plan.again_at is not None:
            self.queue.add_at(key, plan.again_at if plan.again_at > now else now + _NOT_AT_ONCE)
        if not plan.writes and plan.status is None:
            self._meter.ended(key.kind, since)
            self._settle(key)
            if about is None and plan.again_at is None:
                self.queue.forget(key)
            return
        self._running[key] = execution = _Execution(key, about, plan, since)
        self._write_next(execution)

    def _without_early(self, plan: ReconcilePlan, now: float) -> ReconcilePlan:
        """Return a plan without the objects that are to be made later, because others like them were lost, and with
        the Events that say so.
        """
        kept, times = list[PlannedWrite](), [] if plan.again_at is None else [plan.again_at]
        notes = dict.fromkeys(plan.events)
        for write in plan.writes:
            obj: JsonObject = write.call.body if write.call.verb == "create" else {}
            until = self._lost_objects.until(obj, now) if obj else 0.0
            if until <= now:
                kept.append(write)
                continue
            times.append(until)
            if (note := self._lost_objects.event_note(obj)) is not None:
                notes[note] = None
        return msgspec.structs.replace(plan, writes=tuple(kept), events=tuple(notes), again_at=min(times, default=None))

    def _failed(self, key: ObjectKey, now: float) -> None:
        self._meter.retries[key.kind] += 1
        self.queue.failed(key, now)

    def _plan(self, key: ObjectKey, now: float) -> ReconcilePlan | None:
        """Return the plan for an object; None if its controller has failed, which must not stop other controllers, or
        has planned what is not the object's to write.
        """
        try:
            plan = self._controllers[key.kind](self.view, key, now)
            why = breach_of(key, plan)
        except Exception:  # noqa: BLE001 - whatever is in an object that somebody has written
            _log.exception("%s cannot be reconciled, and is looked at again later", key)
            return None
        if not why:
            self._breaches.pop(key, None)
            return plan
        if self._breaches.get(key) != why:
            self._breaches[key] = why
            _log.error("nothing is written for %s: %s", key, why[:300])
        return None

    def _settle(self, key: ObjectKey) -> None:
        """Take that nothing is left to do for an object."""
        self._streaks.pop(key, None)
        self.queue.succeeded(key)
        if self.view.refusals.pop(key, None) is not None:
            self.queue.add(key)  # its status still shows that a write was refused

    def _write_next(self, execution: _Execution) -> None:
        """Make the next writes: one, then two, four and so on, as long as none is refused."""
        plan = execution.plan
        if self._is_stopped:
            return
        if execution.refused is not None:
            self._end_refused(execution, *execution.refused)
            return
        made = plan.writes[execution.position : execution.position + execution.batch]
        execution.position += len(made)
        execution.batch *= 2
        if not made:
            if execution.has_status or plan.status is None:
                self._end(execution)
                return
            made, execution.has_status = (plan.status,), True
        execution.open = len(made)
        self._calls += len(made)
        for write in made:
            if write.deletes is not None and execution.key.kind != _NODE:
                self._lost_objects.mean(write.deletes.uid)
            self._perform(write.call, lambda result, write=write: self._answered(execution, write, result))  # type: ignore[misc]

    def _answered(self, execution: _Execution, write: PlannedWrite, result: ApiResult) -> None:
        execution.open -= 1
        self._calls -= 1
        about = execution.about
        if write.scale_of and (result.refusal or {}).get("code") != HTTPStatus.GATEWAY_TIMEOUT:
            self.view.scales.setdefault(execution.key, {})[write.scale_of] = result
        elif result.refusal is not None:
            if write.deletes is not None:
                self._lost_objects.refused(write.deletes.uid)
            if write.deletes is None or result.refusal.get("code") != HTTPStatus.NOT_FOUND:
                execution.refused = execution.refused or (write, result.refusal)
            else:
                execution.gone.append(write)
        elif result.object is not None:
            execution.record_version(result.object)
            if write.deletes is not None and result.object.get("kind") == "Status":
                execution.gone.append(write)
            if write.done is not None and about is not None:
                name = str(result.object["metadata"].get("name") or write.call.name)
                self._record(about, _filled(write.done, "{name}", name))
        if execution.open == 0 and self._running.get(execution.key) is execution:
            self._write_next(execution)

    def _end(self, execution: _Execution) -> None:
        """Let an object wait until the view has its writes."""
        key = execution.key
        del self._running[key]
        self._meter.ended(key.kind, execution.since)
        self.queue.succeeded(key)
        self.view.refusals.pop(key, None)
        self._streaks[key] = streak = self._streaks.get(key, 0) + 1
        if streak > _STEADY or key.kind in _GATHERED:
            self.queue.pause(key, self._clock.now() + 1.0)
        self._await(execution)

    def _await(self, execution: _Execution) -> None:
        self._awaited[execution.key] = execution
        self._release_awaited()

    def _release_awaited(self) -> None:
        for key, execution in list(self._awaited.items()):
            if key not in self._running and self._is_seen(execution):
                del self._awaited[key]
                self.queue.add(key)

    def _is_seen(self, execution: _Execution) -> bool:
        """Return whether the view has the writes of an execution."""
        seen, gone = self.view.versions, (write.deletes for write in execution.gone)
        return all(seen.get(kind, 0) >= version for kind, version in execution.versions.items()) and not any(
            deleted is not None and uid_of(self.view.find(deleted.key) or {}) == deleted.uid for deleted in gone
        )

    def _end_refused(self, execution: _Execution, write: PlannedWrite, refusal: JsonObject) -> None:
        key, code, now = execution.key, int(refusal.get("code") or 0), self._clock.now()
        del self._running[key]
        self._meter.ended(key.kind, execution.since)
        if (refusal.get("details") or {}).get("kind") == "leases" or code == HTTPStatus.GATEWAY_TIMEOUT:
            _log.warning("the controllers begin anew: %s", refusal.get("message"))
            self._lost()
            return
        self._failed(key, now)
        why = str(refusal.get("message") or "")
        is_outdated = code in _OTHERS and write.call.verb != "create"
        if not is_outdated and not _tells_end_of_namespace(refusal) and execution.about is not None:
            _log.warning("%s: %s", key, why[:300])
            if write.refused is not None:
                self._record(execution.about, _filled(write.refused, "{why}", why))
            if write.counts_as:
                self._write_refusal(execution, RefusedWrite(write.counts_as, why))
                return
        self._await(execution)

    def _write_refusal(self, execution: _Execution, refusal: RefusedWrite) -> None:
        """Write the status that a write was refused."""
        key = execution.key
        if self.view.refusals.get(key) != refusal and self.view.find(key) is not None:
            self.view.refusals[key] = refusal
            plan = self._plan(key, self._clock.now())
            if plan is not None and (status := plan.status) is not None:
                self._running[key] = again = _Execution(
                    key, execution.about, ReconcilePlan(status=status), execution.since
                )
                again.versions = execution.versions
                self._perform(status.call, lambda result: self._finish_refused(again, result))
                return
        self._await(execution)

    def _finish_refused(self, execution: _Execution, result: ApiResult) -> None:
        if result.object is not None:
            execution.record_version(result.object)
        if self._running.get(execution.key) is execution:
            del self._running[execution.key]
            self._await(execution)

    def _record(self, about: JsonObject, note: EventNote) -> None:
        """Store an Event; a counted Event that no longer exists is stored again."""
        call = self._events.call(about, note)

        def stored(result: ApiResult) -> None:
            if call.verb == "update" and (result.refusal or {}).get("code") == HTTPStatus.NOT_FOUND:
                self._perform(msgspec.structs.replace(call, verb="create", name=""), lambda _: None)

        self._perform(call, stored)


def _key_name(made: JsonObject) -> str:
    """Return the kind, as in keys, of the answer to a write, which may be a Status."""
    kind = str(made.get("kind"))
    return kind if kind == "Status" else key_of(made).kind


def _tells_end_of_namespace(refusal: JsonObject) -> bool:
    """Return whether an object was not made because its namespace is being deleted, or is gone; its owner is next."""
    details = refusal.get("details") or {}
    if details.get("kind") == "namespaces":
        return refusal.get("code") == HTTPStatus.NOT_FOUND
    return any(cause.get("reason") == "NamespaceTerminating" for cause in details.get("causes") or ())


def _filled(note: EventNote, place: str, text: str) -> EventNote:
    return msgspec.structs.replace(note, message=note.message.replace(place, text))
