"""The change journal, as the page shows it."""

import shlex
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from modules.cloud.object_writes import NO_JOURNAL, WriteList, WriteQuery, kind_asked, place_asked, place_of
from modules.insight.fleet.changes import ChangeReach, ChangeRow, Holders, changes_sentence
from modules.insight.fleet.states import AWAY, NEVER
from modules.page.picture import Picture
from modules.page.sight import Sight

_MOST: Final = 100
_KEYS: Final = ("kind", "ns", "name", "node", "before", "is")
_EVERYTHING: Final = "all"
_ALL: Final = Sight()


class WriteSource(Protocol):
    """The entries of cloudcore's change journal."""

    def writes(self, query: WriteQuery) -> WriteList:
        """Return the writes that a query selects."""


class ChangesPage(msgspec.Struct, frozen=True):
    """The answer of `GET /page/v1/journal`."""

    sentence: str
    rows: Sequence[ChangeRow] = ()
    more: int = 0
    """Changes beyond these."""
    before: str = ""
    """The place before which they begin."""
    is_all: bool = False
    """Whether what cloudcore and nodes did by themselves is shown, too."""
    wrong: str = ""
    """The fault of the query."""
    command: str = ""
    """The command with the same answer."""


class JournalReader:
    """A reader of the change journal, with how far each change got as the picture shows it.

    Args:
        source: the journal.
        picture: has the pods and the states of the nodes.
    """

    def __init__(self, source: WriteSource, picture: Picture) -> None:
        self._source = source
        self._picture = picture

    def page(self, text: str, sight: Sight = _ALL) -> ChangesPage:
        """Return the changes that a search selects, with how far they got if all nodes and pods are seen.

        Raises:
            KubectlError: cloudcore does not answer; or BeehiveError.
        """
        try:
            query = query_of(text)
        except ValueError as error:
            return ChangesPage("The search cannot be understood.", wrong=str(error))
        found = self._source.writes(query)
        if not found.is_kept and not found.writes:
            return ChangesPage(NO_JOURNAL)
        nodes = self._picture.rows()
        away = {each.name for each in nodes if each.state in (AWAY, NEVER)}
        rows = ChangeReach(self._picture.pods(), away, {each.name for each in nodes}).rows(
            [(each.write, Holders(each.holders, each.acknowledged, each.behind)) for each in found.writes]
        )
        if not sight.is_whole:
            rows = [msgspec.structs.replace(each, reached="", mark="") for each in rows]
        return ChangesPage(
            changes_sentence(rows, found.more, is_reach_known=sight.is_whole), rows, found.more,
            place_of(rows[-1].version, rows[-1].part) if found.more and rows else "",
            not query.people_only, command=command_of(query),
        )  # fmt: skip


def query_of(text: str) -> WriteQuery:
    """Return the query of a search: words, and `kind:`, `ns:`, `name:`, `node:`, `before:` and `is:all`. Without an
    object, a node and `is:all`, what cloudcore and nodes did by themselves is left out.

    Raises:
        ValueError: with a sentence for its author.
    """
    keyed, words = dict[str, str](), list[str]()
    for word in text[:500].split():
        key, colon, value = word.partition(":")
        if not colon or not value or not key.isalpha():
            words.append(word)
        elif key not in _KEYS:
            raise ValueError(f"there is no {key}: there are {', '.join(_KEYS)}")
        else:
            keyed[key] = value
    if keyed.get("is", _EVERYTHING) != _EVERYTHING:
        raise ValueError(f"is: wants {_EVERYTHING}")
    before = place_asked(keyed.get("before", "0"))
    if before is None:
        raise ValueError("before: wants a resourceVersion")
    is_all = not keyed.keys().isdisjoint(("kind", "name", "node", "is"))
    return WriteQuery(
        kind_asked(keyed.get("kind", "")), keyed.get("ns", ""), keyed.get("name", ""), keyed.get("node", ""),
        tuple(words), before=before[0], before_part=before[1], limit=_MOST, people_only=not is_all,
    )  # fmt: skip


def command_of(query: WriteQuery) -> str:
    """Return the command that shows the same; it has no words to search."""
    kind = query.kind.partition(".")[0].lower()
    named = [f"{kind}/{query.name}" if query.name else kind] if kind else []
    options = [*(["-n", query.namespace] if query.namespace else []), *(["--node", query.node] if query.node else [])]
    is_plain = not (query.people_only or named or query.node)
    return shlex.join(["cloudcore", "changes", *named, *options, *(["--all"] if is_plain else [])])
