"""Answers from the store, and the storing of the cloud's answers."""

import logging

import msgspec

from beehive import Clock, Message, Operation, ResourceType
from metamanager import replies
from metamanager.errors import StoreError
from metamanager.query_origins import Origin, origin_of
from metamanager.remote_query import is_pod_question, is_refresh, object_in
from metamanager.replies import Outcome, Reply
from metamanager.rows import Row, cause_of, is_pod_to_run, row_of
from metamanager.rules import is_kept
from metamanager.store import Store
from metamanager.tokens import expires_at, is_fresh, token_key, token_row

_log = logging.getLogger(__name__)

_ANSWER = "asked of the cloud"
"""Cause of these changes in the history."""

_REMEMBERED = 1000
"""Number of deletions remembered, enough for the minutes that an answer may take."""

_PEM_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"

_MAY_BE_STORED = (Origin.CLOUD_FIRST, Origin.STORE_REFRESHED)


class LocalQuery:
    """A handler that answers requests from the store, and keeps the cloud's answers, so that the node has them without
    a connection.

    Args:
        store: the database.
        clock: for times and ids.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._deleted: dict[tuple[str, str], None] = {}
        """Resources and uids of the last deleted objects, oldest first."""

    def record_deletion(self, resource: str, uid: str) -> None:
        """Remember a deleted object. A late answer (edgehub turns it into an update) could otherwise store it again.
        Objects that may come back with the same uid are not noted.
        """
        self._deleted[resource, uid] = None
        if len(self._deleted) > _REMEMBERED:
            del self._deleted[next(iter(self._deleted))]

    def was_deleted(self, row: Row) -> bool:
        """Return whether the cloud has deleted the row's object."""
        return (row.key, row.uid) in self._deleted

    def would_run_again(self, deletion: Message) -> bool:
        """Return whether the next start would run the pod whose deletion edged asks for, because the store has none.

        Raises:
            StoreError: the store cannot be read.
        """
        stored = self._store.get(deletion.route.resource)
        return stored is not None and is_pod_to_run(stored, deletion.content_bytes())

    def find(self, request: Message) -> list[str]:
        """Return the stored objects for a query: the object of its key, or all of its type in all namespaces. A token
        may have expired: a pod starts without a cloud all the same, and its node renews the token later.

        Raises:
            StoreError: the store cannot be read.
        """
        resource = request.subject
        if resource.type == ResourceType.SERVICE_ACCOUNT_TOKEN and resource.name:
            value = self._store.get(token_key(request))
            return [] if value is None or expires_at(value) is None else [value]
        if resource.type and not resource.name and resource.type != ResourceType.CA_CERTIFICATE:
            return self._store.get_all(resource.type)
        value = self._store.get(request.route.resource)
        return [] if value is None else [value]

    def find_fresh(self, request: Message) -> list[str]:
        """Return `find`, without a token that is due for renewal.

        Raises:
            StoreError: the store cannot be read.
        """
        values = self.find(request)
        if request.subject.type == ResourceType.SERVICE_ACCOUNT_TOKEN:
            return [value for value in values if is_fresh(value, self._clock.now())]
        return values

    def reply(self, request: Message) -> Reply:
        """Answer a query from the store, even if it has nothing.

        Raises:
            StoreError: the store cannot be read.
        """
        return replies.stored(request, self.find(request), self._clock)

    def keep_answer(self, requests: list[Message], result: Message | str) -> Outcome:
        """Store the cloud's answer, acknowledge it and pass it on; or pass on its error. If the store has received a
        newer state meanwhile, that state answers the queries.

        Raises:
            StoreError, UnicodeError: the answer cannot be stored; `pass_on` still can deliver it.
        """
        outcome = self.pass_on(requests, result)
        if isinstance(result, str) or result.route.operation == Operation.ERROR:
            return outcome
        row = self._row(requests[0], result)
        sent = outcome.replies
        if row is not None:
            is_news = any(map(is_refresh, requests)) and self._store.get(row.key) != row.value
            if not self._store.put(row):
                asked = (one for one in requests if not is_refresh(one))
                sent = [
                    self.reply(request) if request.route.operation == Operation.QUERY else passed
                    for request, passed in zip(asked, sent, strict=True)
                ]
            elif is_news:
                sent = [*sent, replies.to_edged(_as_pushed(result, row))]
        acknowledged = [*sent, replies.to_cloud(result.reply(self._clock))]
        return Outcome(acknowledged, row is not None, lambda: outcome.replies)

    def pass_on(self, requests: list[Message], result: Message | str) -> Outcome:
        """Reply to all requests, without storing or acknowledging the answer."""
        requests = [one for one in requests if not is_refresh(one)]
        if isinstance(result, str):
            return Outcome([self._without_cloud(request, result) for request in requests])
        return Outcome([replies.answer(one, result.with_header(parent_msg_id=one.id)) for one in requests])

    def _without_cloud(self, request: Message, text: str) -> Reply:
        """Answer from the store instead of the cloud, where the rules allow it; else return the error."""
        kind = request.subject.type
        if request.route.operation == Operation.QUERY and origin_of(kind, named=True) in _MAY_BE_STORED:
            try:
                values = self.find(request)
            except StoreError as error:
                _log.error("no answer for %s: %s", request.route.resource, error)
            else:
                if values:
                    return replies.stored(request, values, self._clock)
        return replies.refusal(request, text, self._clock)

    def _row(self, request: Message, answer: Message) -> Row | None:
        if request.subject.type == ResourceType.SERVICE_ACCOUNT_TOKEN:
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
        """Return the row for an answer from the cloud: the bare object; None if it holds no object to keep, or a
        deleted one.
        """
        kind, resource, now = answer.subject.type, answer.route.resource, self._clock.now_ms()
        cause = cause_of(answer, _ANSWER)
        if kind == ResourceType.CA_CERTIFICATE:
            text = answer.content_bytes()
            return row_of(resource, text, now, cause) if _PEM_CERTIFICATE in text else None
        value = object_in(answer)
        row = row_of(resource, value, now, cause) if value is not None and is_kept(kind) else None
        return None if row is None or self.was_deleted(row) else row


def _as_pushed(answer: Message, row: Row) -> Message:
    """Return the object as the cloud would push it."""
    return answer.with_route(operation=Operation.UPDATE, resource=row.key).with_content(msgspec.Raw(row.value.encode()))
