"""`cordon`: lets no more pods onto nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modules.tools.kubectl import node_scheduling

if TYPE_CHECKING:
    from modules.tools.kubectl.parser import VerbParser
    from modules.tools.kubectl.session import Session


def add(parser: VerbParser) -> None:
    """Add the options."""
    node_scheduling.add_options(parser)


def run(session: Session, chosen: Any) -> int:
    """Mark the nodes; return 1 when one could not be marked."""
    return node_scheduling.run(session, chosen, unschedulable=True)
