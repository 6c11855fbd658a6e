"""`api-versions`: lists the API versions of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modules.apimachinery.printing.terminal import print_lines

if TYPE_CHECKING:
    from modules.cli.parser import VerbParser
    from modules.kubectl.session import Session


def add(parser: VerbParser) -> None:
    """Add no options."""


def run(session: Session, chosen: Any) -> int:  # noqa: ARG001 - as every verb
    """List the versions."""
    print_lines(session.discovery.group_versions)
    return 0
