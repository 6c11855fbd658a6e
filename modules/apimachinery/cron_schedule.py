"""The schedules of CronJobs: five fields of cron in a time zone, or an interval.

The grammar is Kubernetes' (robfig/cron's standard parser): names of months and days, ranges, lists, steps, `?`
for `*`, `@hourly` and its likes, `@every 1h30m`. Where both days are restricted, either may match. A day that never
comes, such as 31 February, is one.

Around the change to or from summer time, a schedule with fixed hours and minutes follows Debian's cron: a time that
occurs twice is taken once, a skipped time is taken at the change. Other schedules follow real time.
"""

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from modules.apimachinery.go_durations import UNIT_NANOSECONDS, read_duration
from modules.apimachinery.go_json import number_error

_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_RANGES: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_STARS: Final = ("*", "?")
_DIGITS: Final = re.compile(r"\+?\d+", re.ASCII)
_LARGEST: Final = 2**63 - 1
_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "
_LONGEST: Final = 256
_MOST_DAYS: Final = 8 * 366
"""Days until each date has occurred: 29 February, over a century."""


class Schedule(NamedTuple):
    """The times of a CronJob."""

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    either_day: bool = False
    """Whether the day of the month or of the week must match, and not both."""
    is_fixed: bool = False
    """Whether hours and minutes are fixed ones."""
    zone: tzinfo = UTC
    every: float = 0.0
    """Seconds of an interval, or 0."""

    def latest(self, after: float, until: float) -> float | None:
        """Return the latest time after one moment and not after another, or None; in seconds since the epoch."""
        return next(self.backwards(after, until), None)

    def backwards(self, after: float, until: float) -> Iterator[float]:
        """Yield the times after one moment and not after another, the latest first."""
        if self.every:
            count = int((until - after) // self.every)
            yield from (after + number * self.every for number in range(count, 0, -1))
            return
        day, first = self._date(until), self._date(after)
        while day >= first:
            yield from self._times_on(day, after, until, is_backwards=True)
            day -= timedelta(days=1)

    def next_after(self, moment: float) -> float | None:
        """Return the first time after a moment, or None if none ever comes."""
        if self.every:
            return moment + self.every
        day = self._date(moment)
        for _ in range(_MOST_DAYS):
            found = next(self._times_on(day, moment), None)
            if found is not None:
                return found
            day += timedelta(days=1)
        return None

    def _date(self, moment: float) -> date:
        return datetime.fromtimestamp(moment, self.zone).date()

    def _times_on(
        self, day: date, after: float, until: float = math.inf, *, is_backwards: bool = False
    ) -> Iterator[float]:
        """Yield the times on a local date after one moment and not after another, in order or the latest first."""
        if not self._matches(day):
            return
        midnight = datetime(day.year, day.month, day.day, tzinfo=self.zone)
        if midnight.utcoffset() != (midnight + timedelta(days=1)).utcoffset():
            moments = self._times_among_two_offsets(midnight)
            yield from (each for each in (moments[::-1] if is_backwards else moments) if after < each <= until)
            return
        begin = midnight.timestamp()
        for hour in sorted(self.hours, reverse=is_backwards):
            since = begin + 3600 * hour
            if since <= until and since + 3600 > after:
                times = (since + 60 * minute for minute in sorted(self.minutes, reverse=is_backwards))
                yield from (moment for moment in times if after < moment <= until)

    def _times_among_two_offsets(self, midnight: datetime) -> Sequence[float]:
        """Return the times on a day with a change to or from summer time, in order."""
        if self.is_fixed:
            return sorted({self._fixed(midnight, hour, minute) for hour in self.hours for minute in self.minutes})
        begin, end = midnight.timestamp(), (midnight + timedelta(days=1)).timestamp()
        every = (datetime.fromtimestamp(moment, self.zone) for moment in range(int(begin), int(end), 60))
        return [each.timestamp() for each in every if each.hour in self.hours and each.minute in self.minutes]

    def _fixed(self, midnight: datetime, hour: int, minute: int) -> float:
        wanted = midnight.replace(hour=hour, minute=minute)
        moment = wanted.timestamp()
        if datetime.fromtimestamp(moment, self.zone).replace(tzinfo=None) == wanted.replace(tzinfo=None):
            return moment
        first = midnight.timestamp()  # the time does not occur: the clock is put forward over it
        offset = midnight.utcoffset()
        while datetime.fromtimestamp(first, self.zone).utcoffset() == offset:
            first += 60
        return first

    def _matches(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return of_month or of_week if self.either_day else of_month and of_week


def parse_schedule(text: str, time_zone: str = "") -> Schedule:
    """Return a schedule.

    Args:
        text: the schedule.
        time_zone: a name of the tz database; "" is UTC.

    Raises:
        ValueError: the text is no schedule, or the zone is unknown; the text has the reason in robfig/cron's words.
    """
    zone = zone_named(time_zone)
    if len(text) > _LONGEST:
        raise ValueError(f"a schedule has at most {_LONGEST} characters")
    if text.startswith(_EVERY):
        return Schedule(every=_interval(text), zone=zone)
    if text.startswith("@") and text not in _MACROS:
        raise ValueError(f"unrecognized descriptor: {text}")
    fields = _MACROS.get(text, text).split()
    if len(fields) != len(_RANGES):
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minutes, hours, days, months, weekdays = (_field(field, number) for number, field in enumerate(fields))
    stars = [any(map(_is_star, _parts(field))) for field in fields]
    is_fixed = not any(field.startswith(("*", "?")) for field in fields[:2])
    either_day = not stars[2] and not stars[4]
    return Schedule(minutes, hours, days, months, weekdays, either_day=either_day, is_fixed=is_fixed, zone=zone)


def zone_named(name: str) -> tzinfo:
    """Return a time zone.

    Raises:
        ValueError: it is unknown.
    """
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError) as error:
        raise ValueError(f"unknown time zone {name}") from error


def _interval(text: str) -> float:
    """Return the whole seconds of an interval, one at least."""
    try:
        return float(max(1, read_duration(text.removeprefix(_EVERY)) // UNIT_NANOSECONDS["s"]))
    except ValueError as error:
        raise ValueError(f"failed to parse duration {text}: {error}") from error


def _parts(field: str) -> list[str]:
    """Return the parts of a list; nothing between two commas is none."""
    return [part for part in field.split(",") if part]


def _is_star(part: str) -> bool:
    """Return whether a part stands for all values; what follows a hyphen after the star does not count."""
    span, _, step = part.partition("/")
    return span.partition("-")[0] in _STARS and _whole(step or "1") == 1


def _field(text: str, number: int) -> frozenset[int]:
    return frozenset(value for part in _parts(text) for value in _part(part, number))


def _part(text: str, number: int) -> range:
    (low, high), (span, *steps) = _RANGES[number], text.split("/")
    ends = span.split("-")
    if ends[0] in _STARS:
        first, last = low, high
    elif len(ends) > 2:
        raise ValueError(f"too many hyphens: {text}")
    else:
        first = last = _value(ends[0], number)
        last = _value(ends[1], number) if len(ends) == 2 else last
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {text}")
    step = _whole(steps[0]) if steps else 1
    if steps and len(ends) == 1:
        last = high
    if first < low:
        raise ValueError(f"beginning of range ({first}) below minimum ({low}): {text}")
    if last > high:
        raise ValueError(f"end of range ({last}) above maximum ({high}): {text}")
    if first > last:
        raise ValueError(f"beginning of range ({first}) beyond end of range ({last}): {text}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {text}")
    return range(first, last + 1, step)


def _value(text: str, number: int) -> int:
    names: dict[int, Sequence[str]] = {3: _MONTHS, 4: _DAYS}
    known = names.get(number, ())
    if text.upper() in known:
        return known.index(text.upper()) + _RANGES[number][0]
    return _whole(text)


def _whole(text: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise ValueError(f"failed to parse int from {text}: {number_error(text, 'Atoi')}")
    if int(text) > _LARGEST:
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range')
    return int(text)
