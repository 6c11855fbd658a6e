"""Requests of the node's owner (`edgecore devices set`): desired values, checked against the device's model. Pure.

An application may set an expected value of any property. The owner may mistype a name, so a property that neither the
model nor the device has is refused, and the refusal lists the existing ones.
"""

from collections.abc import Collection, Mapping

import msgspec

from beehive.decoding import decode_json
from modules.edge.devicetwin import answers, changes
from modules.edge.devicetwin.answers import MessageStamp
from modules.edge.devicetwin.changes import Change, Models, Rules, listed
from modules.edge.devicetwin.errors import BAD_REQUEST, NOT_FOUND, TwinRefused
from modules.edge.devicetwin.requests import TwinRequest, TwinsRequest
from modules.edge.devicetwin.state import OWNER, Device
from modules.edge.devicetwin.values import MAX_PROPERTIES, check_key, check_text


class OwnerAnswer(msgspec.Struct, frozen=True):
    """The answer to a request of the owner."""

    code: int = 0
    """0 for success, else an HTTP status."""
    reason: str = ""


def read_desired(text: bytes) -> dict[str, str | None]:
    """Return the desired values in a request; None returns a property to the cloud's control. Raises TwinRefused."""
    try:
        found = decode_json(text, dict[str, str | None])
    except (msgspec.DecodeError, UnicodeError):
        raise TwinRefused(BAD_REQUEST, "a JSON object of properties and their values as strings is wanted") from None
    if not 0 < len(found) <= MAX_PROPERTIES:
        raise TwinRefused(BAD_REQUEST, f"1 to {MAX_PROPERTIES} properties can be set at once")
    for name, value in found.items():
        check_key(name)
        check_text(name, value or "", plain=False)
    return found


def unknown_device(device_id: str, there: Collection[str]) -> TwinRefused:
    """Return the refusal of a request about a device that the node does not have."""
    return TwinRefused(NOT_FOUND, f"the node has no device {device_id[:200]}; its devices are: {listed(there)}")


def set_desired(
    device: Device,
    wanted: Mapping[str, str | None],
    models: Models,
    named: Collection[str],
    stamp: MessageStamp,
    rules: Rules,
) -> Change:
    """Return a device after the node's owner has set desired values: all of them apply, or none.

    Args:
        device: the device.
        wanted: value of each property; None returns it to the cloud's control.
        models: properties of the device's model; empty without one.
        named: properties of the Device object.
        stamp: the time of the change.
        rules: of changes.

    Raises:
        TwinRefused: the property does not exist, or the model forbids the value.
    """
    for name in wanted:
        _check_known(device, name, models, named)
    before = device
    given: dict[str, TwinRequest | None] = {
        name: TwinRequest(expected=value) for name, value in wanted.items() if value is not None
    }
    if given:
        device = changes.update_twins(device, TwinsRequest("", given, OWNER), models, stamp, rules).device
    device = changes.give_back(device, [name for name, value in wanted.items() if value is None], stamp, rules)
    return Change(device, tuple(answers.changes(before, device, stamp.new_id(), stamp)))


def _check_known(device: Device, name: str, models: Models, named: Collection[str]) -> None:
    live = {each for each, twin in device.twins.items() if twin.is_live}
    if models and name not in models:
        raise TwinRefused(BAD_REQUEST, changes.unknown_property(device, name, models))
    if not models and name not in live and name not in named:
        there = listed({*live, *named})
        raise TwinRefused(
            BAD_REQUEST,
            f"{device.id} has no property {name}; without a model on this node its properties are: {there}",
        )
