"""Devices as the cloud knows them: silent ones, and ones that do not have their desired values.

A device whose node is away is neither good nor bad. Whether a mapper serves a device is known on its node only: of
everything that the node has not reported, the cloud states that it is not known.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from beehive.whole_numbers import whole_number
from modules.apimachinery.device_properties import is_same_value
from modules.apimachinery.printing.ages import human_duration
from modules.apimachinery.printing.fields import JsonObject, objects_at, text_at
from modules.insight.fleet.rows import LONGEST, NodeRow
from modules.insight.fleet.states import AWAY, NEVER

GOOD: Final = "as desired"
INVALID: Final = "invalid"
OFFLINE: Final = "offline"
UNHEALTHY: Final = "unhealthy"
DIFFERS: Final = "not as desired"
OVERDUE: Final = "overdue"
UNKNOWN: Final = "unknown"
NO_NODE: Final = "no node"
NODE_AWAY: Final = "node away"
_ORDER: Final = (INVALID, OFFLINE, UNHEALTHY, DIFFERS, OVERDUE, UNKNOWN, NO_NODE, NODE_AWAY, GOOD)
_COUNTED: Final = {NO_NODE: "without a node", NODE_AWAY: "on nodes that are away"}
"""Words beside a number, where the state itself does not do."""
TOLD: Final = {
    INVALID: "does not fit its model",
    OFFLINE: "is offline",
    UNHEALTHY: "is unhealthy",
    DIFFERS: "is not as desired",
    OVERDUE: "is overdue",
    UNKNOWN: "is in a state that is not known",
    NO_NODE: "has no node",
    NODE_AWAY: "cannot be heard",
}
SILENT: Final = (OFFLINE, UNHEALTHY, OVERDUE, UNKNOWN)
"""States of devices that report nothing, or that their node calls ill."""
_STATES: Final = {"": GOOD, "online": GOOD, "ok": GOOD, "offline": OFFLINE, "unhealthy": UNHEALTHY}
"""Of the states that a node reports; any other is unknown."""

AGREES: Final = "as desired"
OTHER: Final = "another value is reported"
UNCONFIRMED: Final = "not confirmed"
CONFIRMED: Final = "confirmed, not reported"
WAITS: Final = "waits for its node"
_LATE: Final = (OTHER, UNCONFIRMED)

MOST_TWINS: Final = 100
_MOST_ROWS: Final = 200
_MOST_CONDITIONS: Final = 20
_LONGEST_VALUE: Final = 200
_PATIENCE: Final = 180.0
"""Seconds without a report that are always acceptable: an unchanged value is reported once a minute."""
_REPEATS: Final = 3
"""Reports that may be missing."""
_READS: Final = 10
"""Reads of a property that may be missing."""
_ELSEWHERE: Final = "whether a mapper serves it is known on its node only"
_CONDITION: Final = ("type", "status", "reason", "message", "lastTransitionTime")


class DevicePropertyRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A property of a device: the desired value, and the values that its node has confirmed and reported. Times are
    seconds since 1970, by the node's clock; 0 if the node has not said them.
    """

    name: str
    type: str = ""
    unit: str = ""
    access: str = ""
    desired: str = ""
    observed: str = ""
    """The desired value that the node has confirmed."""
    observed_at: float = 0.0
    reported: str = ""
    reported_at: float = 0.0
    is_reported: bool = False
    agrees: str = ""
    """Whether the device has the desired value; empty if none is desired."""
    due: float = 0.0
    """When another report should have come at the latest; 0 if none need come."""


class DeviceFacts(msgspec.Struct, frozen=True):
    """The facts of a row: all of a device but its node and the time."""

    namespace: str
    name: str
    node: str
    model: str
    problem: str
    """Why it does not fit its model."""
    state: str
    """The reported one, in small letters."""
    twins: int
    late: int
    """Properties that do not have the desired value."""
    shown: DevicePropertyRow | None
    """The first of those, else the first that is reported, else the first."""
    due: DevicePropertyRow | None
    """The property whose next report is due first."""
    newest: float
    """The time of the newest reported value."""
    is_heard: bool
    """Whether its node has ever reported a state or a value."""
    mapper: str
    """The state of its mapper, as a part of a sentence."""
    refusal: str = ""
    """Why its mapper does not take it; empty if it does, or has none."""


class DeviceRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A device in a table."""

    namespace: str
    name: str
    node: str
    model: str
    state: str
    why: str
    """Empty for a device whose values are as desired."""
    twins: int
    shown: DevicePropertyRow | None = None
    newest: float = 0.0


class DeviceGroup(msgspec.Struct, frozen=True):
    """The devices of a node."""

    node: str
    state: str
    """Of the node's link; empty if nothing is known of the node."""
    since: float
    rows: Sequence[DeviceRow]


class Devices(msgspec.Struct, frozen=True):
    """All devices by node; devices that need attention come first."""

    sentence: str
    groups: Sequence[DeviceGroup]
    more: int
    """Devices beyond these."""
    is_cut: bool
    """Whether there are devices that were not read."""
    now: float


class DeviceStory(msgspec.Struct, frozen=True):
    """A device with all its properties."""

    sentence: str
    row: DeviceRow
    node_state: str
    reported_state: str
    last_online: str
    protocol: str
    twins: Sequence[DevicePropertyRow]
    more: int
    """Properties beyond these."""
    conditions: Sequence[Mapping[str, str]]
    now: float


def device_facts(device: JsonObject, model: JsonObject, status: JsonObject, mapper: str = _ELSEWHERE) -> DeviceFacts:
    """Return the facts of the row of a device.

    Args:
        device: the Device, in the form of v1beta1.
        model: its DeviceModel; empty without one.
        status: its DeviceStatus; empty without one.
        mapper: a part of a sentence about its mapper.
    """
    return _facts(device, status, device_twins(device, model, status), mapper)


def device_twins(device: JsonObject, model: JsonObject, status: JsonObject) -> list[DevicePropertyRow]:
    """Return all properties of a Device, in its order."""
    of_model = {text_at(each, "name"): each for each in objects_at(model, "spec.properties")}
    twins = objects_at(status, "status.twins") if _is_of(status, device) else []
    known = {text_at(each, "propertyName"): each for each in twins}
    properties = {text_at(each, "name"): each for each in objects_at(device, "spec.properties")}
    return [_twin(name, each, of_model.get(name, {}), known.get(name, {})) for name, each in properties.items()]


def device_state(facts: DeviceFacts, node: NodeRow | None, now: float) -> str:
    """Return the state of a device; see `device_row`."""
    return _state(facts, node, now)[0]


def device_row(facts: DeviceFacts, node: NodeRow | None, now: float) -> DeviceRow:
    """Return the row of a device.

    Args:
        facts: of the device.
        node: its node; None if nothing is known of it.
        now: seconds since 1970.
    """
    state, why = _state(facts, node, now)
    return DeviceRow(
        facts.namespace, facts.name, facts.node, facts.model, state, why[:LONGEST], facts.twins, facts.shown,
        facts.newest,
    )  # fmt: skip


def devices(
    found: Sequence[DeviceFacts], nodes: Sequence[NodeRow], now: float, query: str = "", *, is_cut: bool = False
) -> Devices:
    """Return the devices of a fleet.

    Args:
        found: the devices.
        nodes: all nodes.
        now: seconds since 1970.
        query: words that a device must have in its name, node, model or state, all of them.
        is_cut: whether there are more devices, which were not read.
    """
    known = {each.name: each for each in nodes}
    rows = [device_row(each, known.get(each.node), now) for each in found]
    sentence = _sentence(rows, is_cut=is_cut)
    words = query.lower().split()
    rows = [each for each in rows if all(word in _searched(each) for word in words)]
    rows.sort(key=lambda row: (_ORDER.index(row.state), row.node, row.namespace, row.name))
    groups: defaultdict[str, list[DeviceRow]] = defaultdict(list)
    for row in rows[:_MOST_ROWS]:
        groups[row.node].append(row)
    return Devices(
        sentence=sentence,
        groups=[_group(name, each, known.get(name)) for name, each in groups.items()],
        more=max(0, len(rows) - _MOST_ROWS),
        is_cut=is_cut,
        now=now,
    )


def device_story(
    device: JsonObject,
    model: JsonObject,
    status: JsonObject,
    nodes: Sequence[NodeRow],
    now: float,
    mapper: str = _ELSEWHERE,
) -> DeviceStory:
    """Return a device with all its properties; see `device_facts`."""
    twins = device_twins(device, model, status)
    facts = _facts(device, status, twins, mapper)
    node = next((each for each in nodes if each.name == facts.node), None)
    row = device_row(facts, node, now)
    if row.state == NODE_AWAY:
        twins = [msgspec.structs.replace(each, agrees=WAITS) if each.agrees in _LATE else each for each in twins]
    mine = status if _is_of(status, device) else {}
    conditions = objects_at(mine, "status.conditions")[:_MOST_CONDITIONS]
    return DeviceStory(
        sentence=f"{row.namespace}/{row.name} {f'{TOLD[row.state]}: {row.why}' if row.why else 'is as desired'}.",
        row=row,
        node_state=node.state if node is not None else "",
        reported_state=text_at(mine, "status.state")[:_LONGEST_VALUE],
        last_online=text_at(mine, "status.lastOnlineTime")[:_LONGEST_VALUE],
        protocol=text_at(device, "spec.protocol.protocolName")[:_LONGEST_VALUE],
        twins=twins[:MOST_TWINS],
        more=max(0, len(twins) - MOST_TWINS),
        conditions=[{key: text_at(each, key)[:LONGEST] for key in _CONDITION} for each in conditions],
        now=now,
    )


def _is_of(status: JsonObject, device: JsonObject) -> bool:
    """Return whether a DeviceStatus belongs to a Device, and not to an earlier Device with its name."""
    uid = text_at(device, "metadata.uid")
    return any(text_at(each, "uid") == uid for each in objects_at(status, "metadata.ownerReferences"))


def _facts(device: JsonObject, status: JsonObject, twins: Sequence[DevicePropertyRow], mapper: str) -> DeviceFacts:
    mine = status if _is_of(status, device) else {}
    late = [each for each in twins if each.agrees in _LATE]
    reported = [each for each in twins if each.is_reported]
    state = text_at(mine, "status.state")[:_LONGEST_VALUE].lower()
    return DeviceFacts(
        namespace=text_at(device, "metadata.namespace"),
        name=text_at(device, "metadata.name"),
        node=text_at(device, "spec.nodeName")[:LONGEST],
        model=text_at(device, "spec.deviceModelRef.name")[:LONGEST],
        problem=_denied(mine, "Valid"),
        state=state,
        twins=len(twins),
        late=len(late),
        shown=next(iter((*late, *reported, *twins)), None),
        due=min((each for each in twins if each.due), key=lambda each: each.due, default=None),
        newest=max((each.reported_at for each in reported), default=0.0),
        is_heard=bool(state or reported or any(each.observed_at for each in twins)),
        mapper=mapper,
        refusal=_denied(mine, "Served"),
    )


def _denied(status: JsonObject, kind: str) -> str:
    """Return why a condition does not hold; empty if it holds, or is not there."""
    for condition in objects_at(status, "status.conditions"):
        if condition.get("type") == kind and condition.get("status") == "False":
            return text_at(condition, "message")[:LONGEST] or text_at(condition, "reason")[:LONGEST] or kind
    return ""


def _twin(name: str, wanted: JsonObject, rule: JsonObject, twin: JsonObject) -> DevicePropertyRow:
    desired, observed, reported = (
        text_at(wanted, "desired.value"), text_at(twin, "observedDesired.value"), text_at(twin, "reported.value"),
    )  # fmt: skip
    reported_at = _seconds(text_at(twin, "reported.metadata.timestamp"))
    is_reported = isinstance(twin.get("reported"), dict)
    kind = text_at(rule, "type")
    return DevicePropertyRow(
        name=name[:_LONGEST_VALUE],
        type=kind[:_LONGEST_VALUE],
        unit=text_at(rule, "unit")[:_LONGEST_VALUE],
        access=text_at(rule, "accessMode")[:_LONGEST_VALUE],
        desired=_cut(desired),
        observed=_cut(observed),
        observed_at=_seconds(text_at(twin, "observedDesired.metadata.timestamp")),
        reported=_cut(reported),
        reported_at=reported_at,
        is_reported=is_reported,
        agrees=_agrees(kind, desired, observed, reported, is_reported=is_reported),
        due=_due(wanted, reported_at),
    )


def _agrees(kind: str, desired: str, observed: str, reported: str, *, is_reported: bool) -> str:
    """Return whether a device has a desired value, by the type of its property."""
    if not desired:
        return ""
    if is_reported and is_same_value(kind, desired, reported):
        return AGREES
    if not is_same_value(kind, observed, desired):
        return UNCONFIRMED
    return OTHER if is_reported else CONFIRMED


def _due(wanted: JsonObject, reported_at: float) -> float:
    """Return when the next report of a property should have come at the latest, with the patience of a node."""
    collect, report = _cycle(wanted.get("collectCycle")), _cycle(wanted.get("reportCycle"))
    if wanted.get("reportToCloud") is not True or not reported_at or not (collect or report):
        return 0.0
    return reported_at + max(_PATIENCE, _READS * (collect or 1.0), _REPEATS * report)


def _cycle(milliseconds: Any) -> float:
    return milliseconds / 1000 if isinstance(milliseconds, int) and 0 < milliseconds < 10**12 else 0.0


def _seconds(milliseconds: str) -> float:
    return (whole_number(milliseconds, 15) or 0) / 1000


def _cut(value: str) -> str:
    more = len(value) - _LONGEST_VALUE
    return f"{value[:_LONGEST_VALUE]}… ({more} more characters)" if more > 0 else value


def _state(facts: DeviceFacts, node: NodeRow | None, now: float) -> tuple[str, str]:
    """Return the state of a device, and why it is not as desired."""
    if facts.problem:
        return INVALID, facts.problem
    if not facts.node:
        return NO_NODE, "the Device names no node"
    if node is None:
        return UNKNOWN, f"nothing is known of its node {facts.node}"
    if node.state in (AWAY, NEVER):
        link = "has never been connected" if node.state == NEVER else "is away"
        what = "nothing had been reported" if not facts.is_heard else "its values are those that were reported last"
        return NODE_AWAY, f"{facts.node} {link}, and {what}" + _waiting(facts.late)
    state = _STATES.get(facts.state, UNKNOWN)
    if state == UNKNOWN:
        silent = f"its mapper refuses it: {facts.refusal}" if facts.refusal else "its mapper has ended, or is silent"
        why = silent if facts.state == UNKNOWN else "there is no such state"
        return UNKNOWN, f"its node reports the state {facts.state}: {why}{_differences(facts)}"
    if state != GOOD:
        return state, f"its node reports this state{_differences(facts)}"
    if not facts.is_heard:
        return UNKNOWN, f"nothing has ever been reported; {facts.mapper}"
    if facts.late:
        return DIFFERS, _differences(facts).removeprefix("; ")
    if facts.due is not None and now > facts.due.due:
        age = human_duration(int(now - facts.due.reported_at))
        return OVERDUE, (
            f"{facts.due.name} was reported {age} ago by its node's clock, and should have been since; {facts.mapper}"
        )
    return GOOD, ""


def _waiting(late: int) -> str:
    return f"; {late} desired {'value waits' if late == 1 else 'values wait'} for it" if late else ""


def _differences(facts: DeviceFacts) -> str:
    """Return the properties whose values are not as desired."""
    twin = facts.shown
    if not facts.late or twin is None:
        return ""
    confirmed = "its node has confirmed it" if twin.agrees == OTHER else "its node has not confirmed it"
    reports = f", and {twin.reported} is reported" if twin.is_reported else ""
    more = f"; {facts.late - 1} more not as desired" if facts.late > 1 else ""
    return f"; {twin.name}: {twin.desired} is desired, {confirmed}{reports}{more}"


def _group(name: str, rows: Sequence[DeviceRow], node: NodeRow | None) -> DeviceGroup:
    return DeviceGroup(name, node.state if node is not None else "", node.since if node is not None else 0.0, rows)


def _searched(row: DeviceRow) -> str:
    return f"{row.namespace}/{row.name} {row.node} {row.model} {row.state}".lower()


def _sentence(rows: Sequence[DeviceRow], *, is_cut: bool) -> str:
    counts = Counter(row.state for row in rows)
    total, good = len(rows), counts[GOOD]
    if not rows:
        return "There are no devices."
    if good == total and not is_cut:
        return f"All {total} devices are as desired." if total > 1 else "The device is as desired."
    said = [f"{counts[state]} {_COUNTED.get(state, state)}" for state in _ORDER if state != GOOD and counts[state]]
    first = "the first " if is_cut else ""
    are = "device is" if total == 1 else "devices is" if good == 1 else "devices are"
    return f"{good} of {first}{total} {are} as desired{'; ' if said else ''}{', '.join(said)}."
