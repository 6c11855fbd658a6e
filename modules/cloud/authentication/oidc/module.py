"""The module `oidc`."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from beehive.bounded_calls import BoundedCalls
from beehive.errors import BeehiveError
from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.resource import Side
from modules.cloud.authentication.oidc.fetching import CALL_SECONDS, FetchError

if TYPE_CHECKING:
    from collections.abc import Callable

    from beehive.clock import Clock, Timer
    from beehive.hive import Hive
    from modules.cloud.authentication.oidc.key_sets import ProviderKey
    from modules.cloud.authentication.oidc.tokens import KnownKeys

_log = logging.getLogger(__name__)

NAME: Final = "oidc"
RESOURCE: Final = "cloudcore/oidc"
REFRESH: Final = "refresh"
"""A request for new keys, answered when there are some, or when they are not fetched now."""
PERIOD: Final = 3600.0
"""Seconds between two fetches without a reason: a key that the provider has withdrawn is accepted for so long."""
PAUSE: Final = 10.0
"""Least seconds between two fetches; a failed one is repeated after them."""
_WAIT_SECONDS: Final = 4 * CALL_SECONDS
"""Seconds that a request waits for new keys; the answer comes earlier unless names are resolved slowly."""


class IdentityProvider(Module):
    """The module that keeps the keys of the identity provider up to date. While it does not answer, its last keys are
    kept.

    Args:
        known: gets the keys.
        fetch: returns them; blocks, on a thread of its own, and may raise FetchError.
    """

    name: ClassVar[str] = NAME
    group: ClassVar[str] = NAME
    side: ClassVar[Side] = Side.CLOUD

    def __init__(self, known: KnownKeys, fetch: Callable[[], tuple[ProviderKey, ...]]) -> None:
        super().__init__()
        self._known = known
        self._fetch = fetch
        self._calls = BoundedCalls(self, 1, 0)
        self._is_fetching = False
        self._waiting: list[Message] = []
        """Requests that are answered at the end of the fetch."""
        self._paused_until = 0.0
        """In monotonic seconds."""
        self._again: Timer | None = None
        """Repeats a fetch that has failed."""
        self._last_failure = ""

    def on_start(self) -> None:
        """Fetch the keys; the start does not wait for them."""
        self._begin()
        self.every(PERIOD, self._begin)

    @handles(None, REFRESH)
    def refresh(self, message: Message) -> None:
        """Fetch the keys, unless that was just done, and reply."""
        if not self._is_fetching and self.clock.monotonic() < self._paused_until:
            self.reply(message)
            return
        self._waiting.append(message)
        self._begin()

    def _begin(self) -> None:
        if not self._is_fetching:
            self._is_fetching = self._calls.submit(partial(_attempted, self._fetch), self._fetched)

    def _fetched(self, outcome: tuple[ProviderKey, ...] | FetchError) -> None:
        self._is_fetching = False
        self._paused_until = self.clock.monotonic() + PAUSE
        if isinstance(outcome, FetchError):
            self._failed(outcome)
        else:
            if self._last_failure or not self._known.keys:
                _log.info("the identity provider has %d keys", len(outcome))
            self._known.keys, self._last_failure = outcome, ""
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self.reply(message)

    def _failed(self, error: FetchError) -> None:
        if self._again is not None:
            self._again.cancel()
        self._again = self.after(PAUSE, self._begin)
        if str(error) != self._last_failure:
            self._last_failure = str(error)
            kept = "its last keys are kept" if self._known.keys else "its users are refused until it answers"
            _log.warning("%s; %s", error, kept)


def _attempted(fetch: Callable[[], tuple[ProviderKey, ...]]) -> tuple[ProviderKey, ...] | FetchError:
    try:
        return fetch()
    except FetchError as error:
        return error


def ask_for_keys(hive: Hive, clock: Clock) -> None:
    """Ask the module for new keys, and wait until it has answered; on any thread but a module's."""
    message = Message.new(clock, source=NAME, resource=RESOURCE, operation=REFRESH)
    try:
        hive.request(NAME, message, _WAIT_SECONDS).get()
    except BeehiveError as error:
        _log.debug("the keys are those that were there: %s", error)
