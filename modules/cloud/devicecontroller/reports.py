"""A node's reports about a device: the content of `twin/edge_updated` and `state/update`."""

from collections.abc import Set
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json
from beehive.message import Message
from beehive.whole_numbers import whole_number
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.limits import NODE_LIMIT, NODE_VALUES, is_too_large
from modules.apimachinery.unvalidated import as_object, as_text

VALUE_CHARACTERS: Final = 64 * 1024
"""Most characters of one value."""
_NAME_CHARACTERS: Final = 256
_MOST_TWINS: Final = 1000
"""In one report; more are refused."""
_SHORT: Final = 128
"""Characters of a state, a time, or a type."""
_REFUSAL: Final = 300
"""Characters of a mapper's reason."""


class ReportError(Exception):
    """A report that can never be stored.

    Args:
        code: as of HTTP.
        reason: the fault.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class ReportedValue(msgspec.Struct, frozen=True):
    """A value of a property, with its metadata."""

    value: str
    timestamp: int
    """Milliseconds since 1970; 0: unknown."""
    type: str

    def as_json(self) -> JsonObject:
        """Return it as in a DeviceStatus."""
        metadata = {"timestamp": str(self.timestamp) if self.timestamp else "", "type": self.type}
        return {"value": self.value, "metadata": {name: text for name, text in metadata.items() if text}}


class Report(msgspec.Struct):
    """The reported values of a device that are not written yet; a later report is merged into it."""

    reported: dict[str, ReportedValue] = {}
    observed: dict[str, ReportedValue] = {}
    state: str = ""
    last_online: str = ""
    refusal: str = ""
    """Why its mapper does not take the device; belongs to the state."""

    def of(self, properties: Set[str]) -> "Report":
        """Return the part about some properties: the values of others are not stored."""
        reported, observed = (
            {name: side for name, side in sides.items() if name in properties}
            for sides in (self.reported, self.observed)
        )
        return Report(reported, observed, self.state, self.last_online, self.refusal)

    def add(self, newer: "Report") -> None:
        """Take over a later report: of each property, the value with the later time."""
        for mine, others in ((self.reported, newer.reported), (self.observed, newer.observed)):
            for name, side in others.items():
                if name not in mine or not is_older(side.timestamp, mine[name].timestamp):
                    mine[name] = side
        if newer.state:
            self.state, self.refusal = newer.state, newer.refusal
        self.last_online = newer.last_online or self.last_online


def is_older(timestamp: int, than: int) -> bool:
    """Return whether a value's time lies before another's; an unknown time does not."""
    return 0 < timestamp < than


def read_twins(message: Message) -> Report:
    """Return the values in an update of twins. A twin without a value, as a deleted one, is left out.

    Raises:
        ReportError: it cannot be read, or is too large.
    """
    twins = _content(message).get("twin")
    if not isinstance(twins, dict):
        raise ReportError(400, "the member twin must be an object")
    if len(twins) > _MOST_TWINS or any(len(name) > _NAME_CHARACTERS for name in twins):
        raise ReportError(413, f"at most {_MOST_TWINS} twins, each with a name of {_NAME_CHARACTERS} characters")
    report = Report()
    for name, twin in twins.items():
        if not isinstance(twin, dict):
            continue
        kind = as_text(as_object(twin.get("metadata")).get("type"), _SHORT)
        for field, sides in (("actual", report.reported), ("expected", report.observed)):
            side = _side(twin.get(field), kind)
            if side is not None:
                sides[name] = side
    return report


def read_state(message: Message) -> Report:
    """Return the state in a report; KubeEdge sends the content as a string.

    Raises:
        ReportError: it cannot be read.
    """
    content = {name.lower(): value for name, value in _content(message).items()}
    device = content.get("device")
    if not isinstance(device, dict):
        raise ReportError(400, "the member device must be an object")
    found = {name.lower(): value for name, value in device.items()}
    state, refusal = as_text(found.get("state"), _SHORT), as_text(found.get("refusal"), _REFUSAL)
    return Report(state=state, last_online=as_text(found.get("lastonlinetime"), _SHORT), refusal=refusal)


def _content(message: Message) -> JsonObject:
    try:
        if is_too_large(message.content_raw(), NODE_VALUES):
            raise ReportError(413, NODE_LIMIT)
        content = decode_json(message.content_raw(), Any)
        if isinstance(content, str):
            content = decode_json(content.encode(), Any)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ReportError(400, f"the content is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise ReportError(400, "the content must be an object")
    return content


def _side(given: Any, kind: str) -> ReportedValue | None:
    if not isinstance(given, dict) or given.get("value") is None:
        return None
    value = given["value"]
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if len(text) > VALUE_CHARACTERS:
        raise ReportError(413, f"a value has at most {VALUE_CHARACTERS} characters")
    return ReportedValue(text, milliseconds(as_object(given.get("metadata")).get("timestamp")), kind)


def milliseconds(given: Any) -> int:
    """Return a time, 0 if it is invalid; KubeEdge writes a number into messages and a text into a DeviceStatus."""
    given = whole_number(given) if isinstance(given, str) else given
    return given if type(given) is int and 0 < given < 2**63 else 0
