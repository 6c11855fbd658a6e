"""Questions about objects: answered from the store, asked of the cloud, or refused.

What the cloud has answered is kept (but for leases), so that the same question has an answer when the cloud is away.
"""

import logging

import msgspec

from beehive import Clock, Message, Operation, ResourceType
from metamanager import effects
from metamanager.batch import Outcome
from metamanager.effects import Effect
from metamanager.errors import StoreError
from metamanager.pod_question import is_pod_question
from metamanager.remote import is_refresh, object_in
from metamanager.rows import Row, cause_of, parse, row_of
from metamanager.rules import Origin, is_kept, origin_of
from metamanager.store import Store
from metamanager.tokens import is_fresh, is_good, token_key, token_row

_log = logging.getLogger(__name__)

_ANSWER = "asked of the cloud"
"""Cause of what comes so, in the history."""

_REMEMBERED = 1000
"""Deletions: those of the minutes in which an answer may be under way."""

_PEM_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"

_MAY_BE_STORED = (Origin.CLOUD_FIRST, Origin.STORE_REFRESHED)


class Lookup:
    """See the module's docstring.

    Args:
        store: where answers are looked up and kept.
        clock: time and ids.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._deleted: dict[tuple[str, str], None] = {}
        """Resources and uids of what the cloud has deleted last."""

    def deleted(self, resource: str, uid: str) -> None:
        """The cloud has deleted an object. An answer that brings it may still come, late or once more (edgehub makes an
        update of it), and would resurrect it: no uid comes a second time.
        """
        self._deleted[resource, uid] = None
        if len(self._deleted) > _REMEMBERED:
            del self._deleted[next(iter(self._deleted))]

    def was_deleted(self, row: Row) -> bool:
        """Whether it is an object that the cloud has deleted."""
        return (row.key, row.uid) in self._deleted

    def in_store(self, request: Message) -> list[str]:
        """What the store has for a query: the object of its key, or all of its type over all namespaces.

        Raises:
            StoreError: it cannot be read.
        """
        resource = parse(request.route.resource)
        if resource.type == ResourceType.SERVICE_ACCOUNT_TOKEN and resource.name:
            value = self._store.get(token_key(request))
            return [value] if value is not None and is_good(value, self._clock.now()) else []
        if resource.type and not resource.name and resource.type != ResourceType.CA_CERTIFICATE:
            return self._store.get_all(resource.type)
        value = self._store.get(request.route.resource)
        return [] if value is None else [value]

    def good_in_store(self, request: Message) -> list[str]:
        """As `in_store`, but of a token only one that will be good for a while: its successor is asked for in time.

        Raises:
            StoreError: it cannot be read.
        """
        values = self.in_store(request)
        if parse(request.route.resource).type == ResourceType.SERVICE_ACCOUNT_TOKEN:
            return [value for value in values if is_fresh(value, self._clock.now())]
        return values

    def from_store(self, request: Message) -> Effect:
        """The answer from the store, whatever it has.

        Raises:
            StoreError: it cannot be read.
        """
        return effects.stored(request, self.in_store(request), self._clock)

    def answered(self, requests: list[Message], result: Message | str) -> Outcome:
        """What becomes of the cloud's answer: kept, then passed on and acknowledged. Or of its silence.

        Raises:
            StoreError, UnicodeError: it cannot be kept; it can still be `passed_on`.
        """
        outcome = self.passed_on(requests, result)
        if isinstance(result, str) or result.route.operation == Operation.ERROR:
            return outcome
        row = self._row(requests[0], result)
        news: list[Effect] = []
        if row is not None:
            if any(map(is_refresh, requests)) and self._store.get(row.key) != row.value:
                news = [effects.to_edged(_as_pushed(result, row))]
            self._store.put(row)
        acknowledged = [*outcome.effects, *news, effects.ok_to_cloud(result, self._clock)]
        return Outcome(acknowledged, row is not None, lambda: outcome.effects)

    def passed_on(self, requests: list[Message], result: Message | str) -> Outcome:
        """The answer for everybody who waits for it, nothing kept, nothing acknowledged."""
        requests = [one for one in requests if not is_refresh(one)]
        if isinstance(result, str):
            return Outcome([self._without_cloud(request, result) for request in requests])
        return Outcome([effects.answer(one, result.with_header(parent_msg_id=one.id)) for one in requests])

    def _without_cloud(self, request: Message, text: str) -> Effect:
        """What the store has of what only the cloud should have been asked, or the error."""
        kind = parse(request.route.resource).type
        if request.route.operation == Operation.QUERY and origin_of(kind, named=True) in _MAY_BE_STORED:
            try:
                values = self.in_store(request)
            except StoreError as error:
                _log.error("no answer for %s: %s", request.route.resource, error)
            else:
                if values:
                    return effects.stored(request, values, self._clock)
        return effects.refusal(request, text, self._clock)

    def _row(self, request: Message, answer: Message) -> Row | None:
        if parse(request.route.resource).type == ResourceType.SERVICE_ACCOUNT_TOKEN:
            value = object_in(answer)
            return None if value is None else token_row(request, value, self._clock.now_ms())
        if is_pod_question(request):
            value = object_in(answer)
            return (
                None
                if value is None
                else row_of(request.route.resource, value, self._clock.now_ms(), cause_of(answer, _ANSWER))
            )
        return self.row_of_answer(answer)

    def row_of_answer(self, answer: Message) -> Row | None:
        """What is stored of an answer from the cloud: the bare object; None when it brings nothing that is kept, or
        what was deleted meanwhile.
        """
        kind, resource, now = parse(answer.route.resource).type, answer.route.resource, self._clock.now_ms()
        cause = cause_of(answer, _ANSWER)
        if kind == ResourceType.CA_CERTIFICATE:
            text = answer.content_bytes()
            return row_of(resource, text, now, cause) if _PEM_CERTIFICATE in text else None
        value = object_in(answer)
        row = row_of(resource, value, now, cause) if value is not None and is_kept(kind) else None
        return None if row is None or self.was_deleted(row) else row


def _as_pushed(answer: Message, row: Row) -> Message:
    """The object as the cloud would send it by itself."""
    return answer.with_route(operation=Operation.UPDATE, resource=row.key).with_content(msgspec.Raw(row.value.encode()))
