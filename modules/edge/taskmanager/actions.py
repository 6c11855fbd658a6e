"""How actions of jobs end."""

from collections.abc import Callable

import msgspec


class ActionEnd(msgspec.Struct, frozen=True):
    """End of an action."""

    reason: str = ""
    """Why it has failed; empty if it has succeeded."""
    extend: str = ""
    """What KubeEdge has beside it, see `ActionReport`."""


Done = Callable[[ActionEnd], None]
"""Takes the end of an action, on the module's thread."""
