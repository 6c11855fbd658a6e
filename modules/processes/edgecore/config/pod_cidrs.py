"""Kind of value of `podCIDR`."""

from __future__ import annotations

from edged.settings.pod_cidrs import parse_pod_cidrs
from modules.processes.edgecore.config.value_kinds import UnfitError, ValueKind


class PodCidrs(ValueKind[tuple[str, ...]]):
    """Ranges of addresses for pods, at most one of each IP version, with a comma between them."""

    @property
    def expected(self) -> str:
        """The form of the text."""
        return "a range such as 10.86.0.0/16, an IPv4 and an IPv6 range with a comma between them, or empty"

    def read(self, value: object) -> tuple[str, ...]:
        """Read a text; a range must be one of addresses that pods can have."""
        if not isinstance(value, str):
            raise UnfitError
        if not value:
            return ()
        try:
            return parse_pod_cidrs(value)
        except ValueError as error:
            raise UnfitError(str(error)) from None

    def write(self, setting: tuple[str, ...]) -> object:
        """Return a text."""
        return ",".join(setting)
