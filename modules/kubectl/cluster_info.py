"""`cluster-info`: prints where the server is, and its version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modules.apimachinery.printing.fields import text_at
from modules.apimachinery.printing.terminal import print_lines
from modules.kubectl.node_links import cloud_name

if TYPE_CHECKING:
    from modules.cli.parser import VerbParser
    from modules.kubectl.session import Session


def add(parser: VerbParser) -> None:
    """Add no options."""


def run(session: Session, chosen: Any) -> int:  # noqa: ARG001 - as every verb
    """Say where the server is."""
    version = text_at(session.client.get("/version"), "gitVersion")
    print_lines([f"{session.program}'s API is running at {session.client}, version {version}"])
    if cloud := cloud_name(session.client):
        print_lines([f"The cloud is called {cloud}"])
    return 0
