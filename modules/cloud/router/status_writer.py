"""Writes the statuses of Rules: rarely, and all deliveries since the last write together."""

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from beehive.clock import Timer
from beehive.module import Module
from modules.apimachinery.conditions import condition_in, conditions_of, timed, without
from modules.apimachinery.kinds import JsonObject, ObjectKey, uid_of
from modules.apimachinery.times import format_rfc3339
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.module_calls import PERMANENT, ask, code_of
from modules.cloud.router.records import RuleFault, RuleRecord
from modules.cloud.rules import RULE, RULES_API_VERSION

_log = logging.getLogger(__name__)

INTERVAL: Final = 10.0
"""Seconds between two writes of a Rule's status."""
FIRST: Final = 1.0
"""Seconds until the first write, to collect more."""
MOST_ERRORS: Final = 10
"""Errors in a status: the last ones."""
TIMEOUT: Final = 30.0
_LONGEST: Final = 300
"""Characters of an error."""
_TRIES: Final = 10
"""Attempts until there is more to write, after a refusal that lasts."""
_PARALLEL: Final = 8
"""Statuses that are written at a time: at the start, all are looked at."""
READY: Final = "Ready"
"""The condition's type."""

Known = Callable[[ObjectKey], tuple[RuleRecord | None, RuleFault | None]]


class _Pending:
    """The deliveries and errors that a Rule's status does not count yet."""

    def __init__(self) -> None:
        self.successes = self.failures = 0
        self.errors: deque[str] = deque(maxlen=MOST_ERRORS)
        self.timer: Timer | None = None
        self.is_busy = self.is_due = False
        self.not_before = 0.0
        self.tries = 0


class RuleStatusWriter:
    """A counter of deliveries, which writes the counts with a read, a change and a guarded update: several cloudcores
    count.

    Args:
        module: the router.
        known: returns a Rule, and why it makes no route.
    """

    def __init__(self, module: Module, known: Known) -> None:
        self._module = module
        self._known = known
        self._pending: dict[ObjectKey, _Pending] = {}
        self._running = 0
        self._queue: deque[tuple[ObjectKey, _Pending]] = deque()

    def succeeded(self, key: ObjectKey) -> None:
        """Count a delivered message."""
        pending = self._of(key)
        pending.successes += 1
        self._due(key, pending)

    def failed(self, key: ObjectKey, why: str) -> None:
        """Count a message that was not delivered, and keep the reason."""
        pending = self._of(key)
        pending.failures += 1
        pending.errors.append(f"{format_rfc3339(self._module.clock.now())}: {why[:_LONGEST]}")
        self._due(key, pending)

    def refresh(self, key: ObjectKey) -> None:
        """Write whether the Rule makes a route, as it may have changed."""
        if self._known(key)[0] is None:
            gone = self._pending.pop(key, None)
            if gone is not None and gone.timer is not None:
                gone.timer.cancel()
        else:
            self._due(key, self._of(key))

    def _of(self, key: ObjectKey) -> _Pending:
        return self._pending.setdefault(key, _Pending())

    def _due(self, key: ObjectKey, pending: _Pending) -> None:
        pending.is_due = True
        if pending.is_busy or pending.timer is not None:
            return
        wait = max(FIRST, pending.not_before - self._module.clock.monotonic())
        pending.timer = self._module.after(wait, partial(self._begin, key, pending))

    def _begin(self, key: ObjectKey, pending: _Pending) -> None:
        pending.timer = None
        if self._pending.get(key) is not pending:
            return  # of a Rule that was deleted
        if self._known(key)[0] is None:
            self._pending.pop(key, None)
        elif self._running >= _PARALLEL:
            pending.is_busy = True
            self._queue.append((key, pending))
        else:
            self._running += 1
            pending.is_busy, pending.is_due = True, False
            self._call(_call("get", key), partial(self._read, key, pending))

    def _read(self, key: ObjectKey, pending: _Pending, result: ApiResult) -> None:
        rule, fault = self._known(key)
        live = result.object
        is_of_another = self._pending.get(key) is not pending
        if is_of_another or rule is None or live is None or uid_of(live) != rule.uid:
            self._finish(key, pending, result)
            return
        counts = pending.successes, pending.failures, tuple(pending.errors)
        pending.successes = pending.failures = 0
        pending.errors.clear()
        at = format_rfc3339(self._module.clock.now())
        made = {**live, "status": status_of(live.get("status"), counts, fault, at)}
        if made["status"] == live.get("status"):
            self._finish(key, pending, ApiResult(live))
            return

        def written(answer: ApiResult) -> None:
            if answer.refusal is not None:
                pending.successes += counts[0]
                pending.failures += counts[1]
                pending.errors = deque([*counts[2], *pending.errors], maxlen=MOST_ERRORS)
            self._finish(key, pending, answer)

        self._call(_call("update", key, made), written)

    def _finish(self, key: ObjectKey, pending: _Pending, result: ApiResult) -> None:
        self._running -= 1
        while self._queue and self._running < _PARALLEL:
            self._begin(*self._queue.popleft())
        pending.is_busy = False
        pending.not_before = self._module.clock.monotonic() + INTERVAL
        code = code_of(result)
        has_failed = result.refusal is not None and code != HTTPStatus.NOT_FOUND
        pending.tries = pending.tries + 1 if has_failed else 0
        if pending.tries == _TRIES:
            why = (result.refusal or {}).get("message")
            _log.warning("the status of rule %s/%s is not stored: %s", key.namespace, key.name, why)
        if code in PERMANENT and pending.tries >= _TRIES:
            pending.tries = 0
        elif pending.is_due or has_failed:
            self._due(key, pending)

    def _call(self, call: ApiCall, answered: Callable[[ApiResult], None]) -> None:
        ask(self._module, call, answered, TIMEOUT)


def status_of(before: Any, counts: tuple[int, int, tuple[str, ...]], fault: RuleFault | None, at: str) -> JsonObject:
    """Return the status of a Rule.

    Args:
        before: the present one.
        counts: messages that were delivered and that were not since then, and why not.
        fault: why the Rule makes no route; None if it does.
        at: RFC 3339.
    """
    old: JsonObject = before if isinstance(before, dict) else {}
    successes, failures, errors = counts
    known = [each for each in old.get("errors") or [] if isinstance(each, str)]
    conditions = conditions_of({"status": old})
    made = {
        "type": READY,
        "status": "False" if fault else "True",
        "reason": fault.reason if fault else "Routed",
        "message": fault.message if fault else "",
    }
    return {
        **old,
        "successMessages": _count(old.get("successMessages")) + successes,
        "failMessages": _count(old.get("failMessages")) + failures,
        "errors": [*known, *errors][-MOST_ERRORS:],
        "conditions": [timed(made, condition_in(conditions, READY), at), *without(conditions, READY)],
    }


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _call(verb: str, key: ObjectKey, body: JsonObject | None = None) -> ApiCall:
    return ApiCall(
        verb=verb,
        api_version=RULES_API_VERSION,
        plural=RULE.plural,
        namespace=key.namespace,
        name=key.name,
        body=body,
    )
