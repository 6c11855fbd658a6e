"""The view of the node in a terminal, `edgecore top --live`, and the path of the owner's socket that it reads.

`state` is what the path answers and `state_handler` makes it: the agent loads only these. `model` and its neighbours
are pure; `app` and `screens` need textual, which only the extra `tui` installs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from modules.processes.edgecore.location import add_location

if TYPE_CHECKING:
    import argparse

COMMAND: Final = f"{__name__}.command:live"
"""The function of the command."""


def add_live(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `edgecore top --live`."""
    parser.add_argument("--live", action="store_true", required=True, help="the whole node on the screen")
    parser.add_argument(
        "--interval", type=float, default=2.0, metavar="SECONDS", help="of --live, between two looks (default 2)"
    )
    add_location(parser)
    parser.set_defaults(command=COMMAND)
