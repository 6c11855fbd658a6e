"""Settings of dmi."""

from pathlib import Path

import msgspec


class DmiSettings(msgspec.Struct, frozen=True):
    """Settings of dmi."""

    socket: Path
    """The socket of mappers' registrations."""
    node: str = ""
    """Name of the node, for its events."""
    group: str = ""
    """The group that may connect, a name or a number; empty for edgecore's."""
    report_rate: float = 200.0
    """Reports that one mapper may send per second."""
    report_burst: int = 500
    """Reports that it may send in a burst."""
    like_kubeedge: bool = False
    """Whether the desired value in a mapper's report becomes the expected one, and silent devices go unnoticed, as in
    KubeEdge."""
    look_period: float = 5.0
    """Seconds between two checks whether mappers have made new sockets."""
