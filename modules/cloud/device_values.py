"""The values that devices have reported, for the device history that the module `journal` keeps."""

from typing import Final

import msgspec

REPORTED: Final = "reported"
"""Operation: devicecontroller tells the journal which reported values it has stored, a list of
`DeviceValue`."""
VALUES: Final = "values"
"""Operation: `control` asks the journal for values (`ValueQuery`); the reply is a `ValueList`."""
VALUES_RESOURCE: Final = "journal/values"

LONGEST_VALUE: Final = 256
"""Characters of a value in the history; a longer one is cut."""
NO_VALUES: Final = "cloudcore keeps no values of devices: it was started with --device-history 0."


class DeviceValue(msgspec.Struct, frozen=True, gc=False):
    """A value that a node has reported, and that the DeviceStatus has."""

    namespace: str
    name: str
    """Of the device."""
    property: str
    node: str
    at: float
    """When it was reported, in seconds since 1970, by the clock of its node; 0 if that is not known."""
    value: str


class HistoryValue(msgspec.Struct, frozen=True, gc=False):
    """A value that a property had."""

    at: float
    """When it was reported, in seconds since 1970: by the clock of its node, or by cloudcore's if its node gives no
    time, or an impossible one.
    """
    property: str
    value: str


class ValueQuery(msgspec.Struct, frozen=True):
    """Choice of values."""

    namespace: str
    name: str
    """Of the device."""
    property: str = ""
    """Only of this one."""
    limit: int = 2000
    """The newest so many."""


class ValueList(msgspec.Struct, frozen=True):
    """The reply to a `ValueQuery`."""

    values: list[HistoryValue] = []
    """The oldest first."""
    node: str = ""
    """The node that has reported the newest one."""
    most: int = 0
    """Values of a property that are kept; 0 if none are."""
