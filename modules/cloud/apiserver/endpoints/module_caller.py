"""API calls of threads, which the module apiserver makes."""

from collections.abc import Callable
from typing import Any, Final, Protocol

from msgspec.structs import replace

from beehive.clock import Clock
from beehive.errors import BeehiveError
from beehive.hive import Hive
from beehive.message import Message
from modules.apimachinery.errors import ApiStatusError
from modules.cloud import api_messages
from modules.cloud.api_messages import Verb
from modules.cloud.apiserver.tokens.claims import AccountClaims
from modules.cloud.apiserver.tokens.signing_keys import TokenKeys
from modules.cloud.authentication.users import User, groups_of
from modules.cloud.client.calls import ApiCall, ApiCalls, ApiResult
from modules.cloud.storage.watch_history import WatchQuery, WatchStart

_REPLY_SECONDS: Final = 30.0


class ApiCaller(Protocol):
    """A sender of requests to the API server's actor."""

    def call(self, call: ApiCall) -> ApiResult:
        """Return the response. Raise ApiStatusError without one."""

    def start_watch(self, query: WatchQuery) -> WatchStart:
        """Return the beginning of a watch. Raise ApiStatusError when there is no response."""


class ModuleCaller:
    """A caller of a module, which waits for its replies; on any thread but a module's (`ApiCaller`).

    Args:
        hive: has the module.
        clock: for the times of messages.
        module: its name.
        administrator: who makes the requests, for the change journal and certificate requests.
        user: the user who makes the requests, for RBAC: they grant no rights that the user does not have.
    """

    def __init__(
        self,
        hive: Hive,
        clock: Clock,
        module: str = api_messages.MODULE,
        *,
        administrator: User | None = None,
        user: User | None = None,
    ) -> None:
        self._hive = hive
        self._clock = clock
        self._module = module
        self._requester: dict[str, Any] = {}
        """The fields of a call about who makes it."""
        who = user or administrator
        if who is not None:
            name = "author" if user is None else "user"
            self._requester = {name: who.name, "groups": groups_of(who), "uid": who.uid, "extra": who.extra}

    def call(self, call: ApiCall) -> ApiResult:
        """Return the response to a request.

        Raises:
            ApiStatusError: 504; there is no answer.
        """
        if self._requester:
            call = replace(call, **self._requester)
        return self._ask(Verb.CALL, call).content_as(ApiResult)

    def begin(self, call: ApiCall, then: Callable[[ApiResult], None]) -> None:
        """Pass a request on without waiting; `then` is called once with the response, on any thread."""

        def done(answer: Message | BeehiveError) -> None:
            if isinstance(answer, BeehiveError):
                then(ApiResult(refusal=unanswered(answer).status()))
            else:
                then(answer.content_as(ApiResult))

        self._begin(Verb.CALL, call, done)

    def begin_watch(self, query: WatchQuery, then: Callable[[WatchStart], None]) -> None:
        """Ask for the beginning of a watch without waiting; as `begin`."""

        def done(answer: Message | BeehiveError) -> None:
            if isinstance(answer, BeehiveError):
                then(WatchStart(refusal=unanswered(answer).status()))
            else:
                then(answer.content_as(WatchStart))

        self._begin(Verb.WATCH, query, done)

    def begin_all(self, calls: ApiCalls, done: Callable[[Message | BeehiveError], None]) -> None:
        """Pass calls on without waiting; `done` is called once, on any thread, with the answer, which has a list of
        results, or with the reason why there is none.
        """
        self._begin(Verb.CALLS, calls, done)

    def _begin(
        self, verb: Verb, content: ApiCall | ApiCalls | WatchQuery, done: Callable[[Message | BeehiveError], None]
    ) -> None:
        self._hive.request_then(self._module, self._message(verb, content), _REPLY_SECONDS, done, waits=False)

    def start_watch(self, query: WatchQuery) -> WatchStart:
        """Return the beginning of a watch.

        Raises:
            ApiStatusError: 504; there is no answer.
        """
        return self._ask(Verb.WATCH, query).content_as(WatchStart)

    def token_keys(self) -> dict[str, bytes]:
        """Return the public keys of service accounts' tokens, PEM, by their ids.

        Raises:
            ApiStatusError: 504; there is no answer.
        """
        return self._ask(Verb.TOKEN_KEYS, None).content_as(TokenKeys).keys

    def is_void(self, claims: AccountClaims) -> bool:
        """Return whether a token is void, as an object that it is bound to no longer exists.

        Raises:
            ApiStatusError: 504; there is no answer.
        """
        return self._ask(Verb.TOKEN_OBJECTS, claims).content_as(bool)

    def _ask(self, verb: Verb, content: ApiCall | WatchQuery | AccountClaims | None) -> Message:
        try:
            reply: Message = self._hive.request(self._module, self._message(verb, content), _REPLY_SECONDS).get()
        except BeehiveError as error:
            raise unanswered(error) from error
        return reply

    def _message(self, verb: Verb, content: ApiCall | ApiCalls | WatchQuery | AccountClaims | None) -> Message:
        source, resource = api_messages.SOURCE, api_messages.RESOURCE
        return Message.new(self._clock, source=source, resource=resource, operation=verb, content=content)


def unanswered(error: BeehiveError) -> ApiStatusError:
    """Return the refusal of a request that the API server has not answered."""
    return ApiStatusError(504, f"the API server did not answer: {error}")
