"""Kinds of custom resources that a module of the cloud watches, through edgecontroller."""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final

from beehive.errors import BeehiveError
from beehive.message import Message
from beehive.module import Module
from beehive.names import ModuleName
from modules.apimachinery.kinds import Kind
from modules.cloud import api_messages
from modules.cloud.api_messages import Verb
from modules.cloud.storage.watch_history import ObjectChanged, WatchQuery, WatchStart

_SECONDS: Final = 30.0
"""Timeout of edgecontroller's answers."""
_AGAIN: Final = 5.0
"""Seconds until it is tried again. It asks edgecontroller; the API server is asked by edgecontroller's reflectors."""
_SOON: Final = 0.1
"""The same when edgecontroller's lists are not complete yet."""


class KindWatch:
    """Begins to watch kinds, one after the other; again from the first one on until all have succeeded. Later changes
    come to the module as messages.

    Args:
        module: watches.
        kinds: in the order in which they are watched.
        take: takes over an object that there is.
        done: called when all objects are known.
        failed: told why it is tried again, and the code of a refusal or 0.
    """

    def __init__(
        self,
        module: Module,
        kinds: Sequence[Kind],
        take: Callable[[ObjectChanged], None],
        done: Callable[[], None],
        failed: Callable[[str, int], None],
    ) -> None:
        self._module = module
        self._kinds = kinds
        self._take = take
        self._done = done
        self._failed = failed
        self.loaded: set[str] = set()
        """The kinds whose objects are all known."""

    def start(self) -> None:
        """Begin, perhaps once more: edgecontroller tells of changes until it is restarted."""
        self._watch(self._kinds)

    def _watch(self, rest: Sequence[Kind]) -> None:
        if not rest:
            self._done()
            return

        def answered(answer: Message | BeehiveError) -> None:
            start = answer.content_as(WatchStart) if isinstance(answer, Message) else None
            if start is None or start.refusal is not None:
                refusal = (start.refusal if start else None) or {"message": str(answer)}
                self._try_again(str(refusal.get("message")), int(refusal.get("code") or 0))
                return
            for changed in start.changes:
                self._take(changed)
            self.loaded.add(rest[0].key_name)
            self._watch(rest[1:])

        request = self._module.message(api_messages.RESOURCE, Verb.WATCH, WatchQuery(rest[0].key_name))
        self._module.request(ModuleName.EDGECONTROLLER, request, _SECONDS, answered)

    def _try_again(self, why: str, code: int) -> None:
        self._failed(why, code)
        self._module.after(_SOON if code == HTTPStatus.SERVICE_UNAVAILABLE else _AGAIN, self.start)
