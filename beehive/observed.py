"""`Observed`: the taps and watchers of a hive, and the records that they receive."""

import itertools
import logging
from collections.abc import Callable
from typing import Any

from beehive.delivery import Delivery, DeliveryRecord, DropReason, Outcome, Tap
from beehive.trace_context import current_context

_log = logging.getLogger(__name__)

_HANDLED = Outcome.HANDLED
"""Looked up once: a member of an enum costs as much as a call."""


class Observed:
    """The base of `Hive` that reports deliveries to taps, and other events to watchers.

    Without taps, observing costs nothing.

    Args:
        monotonic: the clock's monotonic seconds.
        taps: observers of every delivery.
    """

    def __init__(self, monotonic: Callable[[], float], taps: tuple[Tap, ...]) -> None:
        self._monotonic = monotonic
        self.taps: list[Tap] = list(taps)
        self.watchers: list[Callable[[Any], None]] = []
        """Called with events other than deliveries: `beehive.delivery.HiveEvent`, and events of modules. Without
        watchers, timers are not observed."""
        self.next_span: Callable[[], int] = itertools.count(1).__next__
        """Draws the number of a new span, see `beehive.trace_context`."""

    def handled(self, module: str, delivery: Delivery, begin: float) -> None:
        """Report a handled delivery to the taps; `begin` is the start of its handler, in monotonic seconds."""
        waited = begin - delivery.enqueued if delivery.enqueued >= 0 else 0.0
        seconds = self._monotonic() - begin
        message, mode, depth = delivery.message, delivery.mode, delivery.depth
        record = DeliveryRecord(
            begin + seconds, module, message, mode, _HANDLED, None, depth, waited, seconds,
            delivery.sender, delivery.span, delivery.cause, delivery.trace,
        )  # fmt: skip
        for tap in self.taps:
            try:
                tap.delivered(record)
            except Exception:  # noqa: BLE001 - an observer must not fail a module
                _tap_failed(tap)

    def report(self, module: str, delivery: Delivery, outcome: Outcome, reason: DropReason | None) -> None:
        """Report a delivery that has ended without being handled to the taps."""
        if self.taps:
            now = self._monotonic()
            waited = now - delivery.enqueued if delivery.enqueued >= 0 else 0.0
            message, mode, depth = delivery.message, delivery.mode, delivery.depth
            if not delivery.span:
                self._trace(delivery)
            record = DeliveryRecord(
                now, module, message, mode, outcome, reason, depth, waited, 0.0,
                delivery.sender, delivery.span, delivery.cause, delivery.trace,
            )  # fmt: skip
            self._call_taps(record)

    def notify_watchers(self, event: Any) -> None:
        """Call the watchers with an event."""
        for watcher in self.watchers:
            try:
                watcher(event)
            except Exception:  # noqa: BLE001 - an observer must not fail a module
                _log.exception("a watcher failed")

    def _trace(self, delivery: Delivery) -> None:
        """Give a span and a cause to a delivery that never reached an inbox."""
        context = current_context()
        delivery.span = span = self.next_span()
        delivery.sender, delivery.cause, delivery.trace = context.actor, context.span, context.trace or span

    def _call_taps(self, record: DeliveryRecord) -> None:
        for tap in self.taps:
            try:
                tap.delivered(record)
            except Exception:  # noqa: BLE001 - as above
                _tap_failed(tap)


def _tap_failed(tap: Tap) -> None:
    _log.exception("tap %s failed", type(tap).__name__)
