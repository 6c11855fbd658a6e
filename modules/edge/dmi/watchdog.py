"""Devices that have fallen silent. Pure.

A mapper that has ended, or whose device was never reachable, reports nothing, and without a watchdog the last values
would look current. KubeEdge lacks it; its framework gives up a device that it cannot open at the first attempt, until
the device changes.
"""

from typing import Final

SHORTEST: Final = 180.0
"""Seconds of silence that are always acceptable: a mapper may report an unchanged value only once a minute."""

CYCLES: Final = 10
"""Consecutive reads of a property that may be missing."""

REPEATS: Final = 3
"""Consecutive reports of an unchanged value that may be missing."""

NUDGE_SECONDS: Final = 300.0
"""Seconds between two attempts to wake a silent device by sending it to its mapper again."""

UNKNOWN: Final = "unknown"
ONLINE: Final = "online"
_SILENT: Final = frozenset({"offline", "unknown"})
"""States where silence is expected."""


def patience_of(cycles: list[tuple[int, int]]) -> float:
    """Return the seconds without a report after which a device counts as silent; 0 if it need not report.

    Args:
        cycles: collectCycle and reportCycle, in milliseconds, of each property with reports.
    """
    limits = [max(SHORTEST, CYCLES * (collect or 1000) / 1000, REPEATS * report / 1000) for collect, report in cycles]
    return min(limits, default=0.0)


class Watchdog:
    """A watchdog that notes the time of each device's last report, and finds the devices that have fallen silent.

    It watches only devices of registered mappers.
    """

    def __init__(self) -> None:
        self._heard: dict[str, float] = {}
        self._states: dict[str, str] = {}
        self._silent: dict[str, float] = {}
        """Silent devices, each with the time when it was last sent to its mapper."""

    def observe(self, device: str, now: float, state: str = "", *, is_unknown: bool = False) -> bool:
        """Note a report; return whether the device was silent and is now online again.

        Args:
            device: `namespace/name`.
            now: monotonic seconds.
            state: the reported state; empty for a report of values.
            is_unknown: whether its stored state is unknown; if its mapper has told this process none, the watchdog of
                an earlier process has set it.
        """
        self._heard[device] = now
        if state:
            self._states[device] = state.lower()
        was_silent = self._silent.pop(device, None) is not None or (is_unknown and device not in self._states)
        return was_silent and not state and self._states.get(device, ONLINE) not in _SILENT

    def silent(self, device: str, patience: float, now: float) -> tuple[bool, bool]:
        """Check a device; return whether its state becomes unknown, and whether to send it to its mapper again.

        Args:
            device: `namespace/name`.
            patience: of `patience_of`.
            now: monotonic seconds.
        """
        heard = self._heard.setdefault(device, now)
        if not patience or now - heard < patience:
            return False, False
        told = self._silent.get(device)
        if told is not None and now - told < NUDGE_SECONDS:
            return False, False
        self._silent[device] = now
        return told is None and self._states.get(device, ONLINE) not in _SILENT, True

    def lost(self, device: str, now: float) -> bool:
        """Note that the mapper of a device has ended; return whether the device's state becomes unknown.

        Args:
            device: `namespace/name`.
            now: monotonic seconds.
        """
        if device in self._silent:
            return False
        self._silent[device] = now
        return self._states.get(device, ONLINE) not in _SILENT

    def refused(self, device: str, now: float) -> None:
        """Note that the mapper of a device does not take it: the next report of values says that it does.

        Args:
            device: `namespace/name`.
            now: monotonic seconds.
        """
        self._silent[device] = now
        self._states.pop(device, None)

    def keep(self, devices: set[str]) -> None:
        """Forget all other devices."""
        for notes in (self._heard, self._states, self._silent):
            for device in set(notes) - devices:
                del notes[device]
