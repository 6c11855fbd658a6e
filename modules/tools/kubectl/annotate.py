"""`annotate`: sets and removes annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modules.tools.kubectl import metadata

if TYPE_CHECKING:
    from modules.tools.kubectl.parser import VerbParser
    from modules.tools.kubectl.session import Session

_VERB: Final = metadata.MetadataVerb("annotations", "annotation", "annotated", "annotated")


def add(parser: VerbParser) -> None:
    """Add the options."""
    metadata.add_options(parser, _VERB.noun)


def run(session: Session, chosen: Any) -> int:
    """Change the objects; return 1 when one was not changed."""
    return metadata.run(session, chosen, _VERB)
