"""The thread of one device: opens the device, writes desired values, reads, and reports changes."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from beehive.backoff import Backoff
from beehive.clock import Clock
from edgecore_mapper.driver import DeviceDriver, DriverProperty, DriverSpec, text_of
from edgecore_mapper.method_calls import MethodCalls, MethodRefused

_log = logging.getLogger(__name__)

FIRST_DELAY: Final = 1.0
LONGEST_DELAY: Final = 60.0
"""Bounds in seconds of the random delay before a device that failed is opened again."""
LEAST_DELAY: Final = 0.1
"""Seconds that are added to the delay."""

REPEAT: Final = 1.0
"""Seconds after which a report that edgecore did not accept is repeated, with the newest values."""

METHOD_SECONDS: Final = 8.0
"""Seconds during which the caller of a method waits: less than the ten seconds of edgecore's servicebus."""

IDLE: Final = 60.0
"""Longest pause of a device, in seconds."""


class Wish(NamedTuple):
    """A desired value, and the place of the property."""

    desired: str
    device: Mapping[str, Any]
    """`DriverSpec.config`."""
    property: Mapping[str, Any]
    """`DriverProperty.config`."""


class Reports(Protocol):
    """A sender of reports to edgecore; called on the threads of devices."""

    def values(self, spec: DriverSpec, values: Mapping[str, str]) -> bool:
        """Report values; return whether edgecore has accepted them."""

    def state(self, spec: DriverSpec, state: str) -> bool:
        """Report a state; return whether edgecore has accepted it."""


class DeviceThread:
    """The thread that runs one device until `stop`.

    Args:
        spec: the device.
        driver: makes its driver.
        reports: sends its reports.
        clock: measures cycles.
        previous: an earlier, stopped thread of the device or of one with its name: this one waits for its end.
        written: the wishes that an earlier thread of the device has written to it.
    """

    def __init__(
        self,
        spec: DriverSpec,
        driver: Callable[[DriverSpec], DeviceDriver],
        reports: Reports,
        clock: Clock,
        previous: "DeviceThread | None",
        written: "dict[str, Wish]",
    ) -> None:
        self._spec = spec
        self._make = driver
        self._reports = reports
        self._clock = clock
        self._backoff = Backoff(FIRST_DELAY, LONGEST_DELAY, LEAST_DELAY)
        self._previous = previous
        self._stopped = threading.Event()
        self._wake = threading.Event()
        self._due = {name: 0.0 for name, one in spec.properties.items() if one.is_reported}
        self._told: dict[str, tuple[str, float]] = {}
        self._state = ""
        self._reports_all = threading.Event()
        self._problem = ""
        self._forbidden: dict[str, str] = {}
        """The desired values that are not written, by property: each is in the log once."""
        self._values: dict[str, str] = {}
        self._driver: DeviceDriver | None = None
        """While the device is open."""
        self.written = written
        """What was written to the device, by property."""
        self._calls = MethodCalls(self._wake.set)
        self._thread = threading.Thread(target=self._run, name=spec.id, daemon=True)

    @property
    def values(self) -> Mapping[str, str]:
        """The last values that were read; may be called on any thread."""
        return self._values

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def call(self, method: str, name: str, text: str) -> None:
        """Call a method with a value for a property of the device, and wait for its end. Raises MethodRefused."""
        prop = self._spec.properties.get(name)
        if prop is None or not prop.is_writable:
            raise MethodRefused(f"{name} is {'ReadOnly' if prop is not None else 'no property of the device'}")
        try:
            value = prop.value_of(text)
        except ValueError as error:
            raise MethodRefused(f"{name} is {prop.type} in the device's model: {error}") from error

        def work() -> None:
            if self._driver is not None:
                self._driver.call(method, prop, value)
            if name in self._due:
                self._due[name] = 0.0

        self._calls.call(work, METHOD_SECONDS)

    def desire(self, spec: DriverSpec) -> None:
        """Take a description with changed desired values; the device stays open."""
        self._spec = spec
        self._wake.set()

    def report_all(self) -> None:
        """Read and report all values and the state again: edgecore may not have what was reported before."""
        self._reports_all.set()
        self._wake.set()

    def stop(self) -> None:
        """Ask the thread to end; `join` waits for it."""
        self._stopped.set()
        self._wake.set()

    def is_alive(self) -> bool:
        """Return whether the thread, or an earlier one that it was still waiting for, may hold the device."""
        thread: DeviceThread | None = self
        while thread is not None:
            if thread._thread.is_alive():
                return True
            thread = thread._previous
        return False

    def join(self, seconds: float) -> None:
        """Wait at most `seconds` for the thread's end; a driver that hangs is abandoned."""
        self._thread.join(seconds)

    def _run(self) -> None:
        self._wait_for_earlier()
        while not self._stopped.is_set():
            driver: DeviceDriver | None = None
            try:
                driver = self._make(self._spec)
                driver.open()
                self._poll(driver)
            except Exception as error:  # noqa: BLE001 - the author's code, which must not end the mapper
                self._failed(error)
            finally:
                self._close(driver)
            if not self._stopped.is_set():
                self._forget_reports()
                self._report_state("offline")
                self._stopped.wait(self._backoff.next(self._clock.random))

    def _wait_for_earlier(self) -> None:
        """Wait for the earlier thread, and for the one that it was still waiting for when it was stopped."""
        while self._previous is not None and not self._stopped.is_set():
            self._previous.join(FIRST_DELAY)
            if not self._previous._thread.is_alive():
                self._previous = self._previous._previous

    def _poll(self, driver: DeviceDriver) -> None:
        self._driver = driver
        while not self._stopped.is_set():
            self._wake.clear()
            self._forget_reports()
            spec = self._spec  # a report tells the desired values that were written
            driver.properties = spec.properties
            self._write(spec, driver)
            self._calls.carry_out()
            now = self._clock.monotonic()
            due = [name for name, when in self._due.items() if when <= now]
            read = {name: text_of(driver.read(spec.properties[name])) for name in due}
            self._values = {**self._values, **read}
            self._backoff.reset()
            self._problem = ""
            self._report_state("online")
            again = self._report(spec, read, now)
            for name in due:
                cycle = spec.properties[name].collect_cycle
                self._due[name] = now + (min(cycle, REPEAT) if again else cycle)
            following = min(self._due.values(), default=now + IDLE)
            self._wake.wait(max(0.0, min(following, now + IDLE) - self._clock.monotonic()))

    def _forget_reports(self) -> None:
        if self._reports_all.is_set():
            self._reports_all.clear()
            self._told.clear()
            self._state = ""
            self._due = dict.fromkeys(self._due, 0.0)

    def _report(self, spec: DriverSpec, read: Mapping[str, str], now: float) -> bool:
        """Report changed values, and values with too old a report; return whether the report must be repeated."""
        news = {name: value for name, value in read.items() if self._is_due(spec.properties[name], value, now)}
        if not news:
            return False
        if not self._reports.values(spec, news):
            return True
        self._told.update({name: (value, now) for name, value in news.items()})
        return False

    def _is_due(self, prop: DriverProperty, value: str, now: float) -> bool:
        told = self._told.get(prop.name)
        return told is None or told[0] != value or now - told[1] >= prop.report_cycle

    def _write(self, spec: DriverSpec, driver: DeviceDriver) -> None:
        for prop in spec.properties.values():
            wish = Wish(prop.desired, spec.config, prop.config)
            if not prop.desired:
                self.written.pop(prop.name, None)  # the same value is another wish later
                self._forbidden.pop(prop.name, None)
            if not prop.desired or not prop.is_writable or self.written.get(prop.name) == wish:
                continue
            try:
                value = prop.value_of(prop.desired)
            except ValueError as error:
                if self._forbidden.get(prop.name) != prop.desired:
                    self._forbidden[prop.name] = prop.desired
                    _log.warning("%s: the desired value of %s is not written: %s", spec.id, prop.name, error)
                continue
            driver.write(prop, value)
            self.written[prop.name] = wish
            if prop.name in self._due:
                self._due[prop.name] = 0.0

    def _report_state(self, state: str) -> None:
        if self._spec.reports_state and state != self._state and self._reports.state(self._spec, state):
            self._state = state

    def _failed(self, error: Exception) -> None:
        why = f"{type(error).__name__}: {error}"
        if why != self._problem:
            _log.warning("%s failed, and is opened again: %s", self._spec.id, why)
        self._problem = why
        self.written.clear()  # a device that was away may have lost them

    def _close(self, driver: DeviceDriver | None) -> None:
        if driver is None:
            return
        try:
            driver.close()
        except Exception as error:  # noqa: BLE001 - the author's code
            _log.warning("%s did not close: %s: %s", self._spec.id, type(error).__name__, error)
