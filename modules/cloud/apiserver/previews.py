"""Requests about large objects, whose results are computed on another thread before they are carried out."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from beehive.message import Message
from beehive.module import Module
from modules.apimachinery.computed import ManyStepsError, Results, in_few_steps
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_for
from modules.cloud.apiserver import api_calls
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.short_turns import short_turns
from modules.cloud.apiserver.verbs.requests import find_kind
from modules.cloud.client.calls import ApiCall
from modules.cloud.storage.object_storage import LARGE

_ATTEMPTS: Final = 3
"""Attempts while others write the same object; after them it is carried out without a preview."""
_FEW: Final = 4_000
"""Steps (`take_steps`) that a request may take on the API server's own thread: some ten milliseconds."""
_VERBS: Final = ("create", "update", "updatestatus", "patch")
_SUBRESOURCES: Final = ("", "status")


class _Waiting(msgspec.Struct):
    message: Message
    call: ApiCall
    attempts: int = 0


def call_in(message: Message) -> ApiCall:
    """Return the request in a message; a creation has the message's id."""
    call = message.content_as(ApiCall)
    return msgspec.structs.replace(call, message_id=message.header.msg_id) if call.verb == "create" else call


def steps_of(call: ApiCall) -> int | None:
    """Return the steps that a request may take on the API server's own thread; None: any number."""
    return _FEW if call.verb in _VERBS else None


class Previews:
    """Requests about large objects, made twice: on a thread beside the API server's, where nothing is written, and then
    on its own, where the functions that took the time are not called again (`computed`). Others are served meanwhile.
    One request is under way at a time, and each sender has its turn.

    A request is one of them if its body or its object is large, or if it turns out to take many steps: by the defaults
    and rules of its kind, or the copies of its patch.

    Args:
        module: the API server; makes the threads.
        cluster: its objects.
        carry_out: carries out a request, with what its preview has computed; None: others change its object all the
            time.
        is_allowed: whether the sender of a request may make it; for others nothing is computed.
    """

    def __init__(
        self,
        module: Module,
        cluster: Cluster,
        carry_out: Callable[[Message, Results | None], None],
        is_allowed: Callable[[ApiCall], bool] = lambda _: True,
    ) -> None:
        self._module = module
        self._cluster = cluster
        self._carry_out = carry_out
        self._is_allowed = is_allowed
        self._waiting: dict[str, deque[_Waiting]] = {}
        """By sender, in the order of their turns."""
        self._under_way: _Waiting | None = None

    def accept(self, message: Message) -> bool:
        """Take a request that is to be carried out later; return whether it is one."""
        call = message.content
        if not isinstance(call, ApiCall) or not self.is_needed(call):
            return False
        self._put(message)
        return True

    def is_needed(self, call: ApiCall) -> bool:
        """Return whether a request is to be carried out later."""
        if call.verb not in _VERBS or call.subresource not in _SUBRESOURCES:
            return False
        try:
            is_large = (call.size or len(msgspec.json.encode(call.body))) >= LARGE
        except (TypeError, ValueError, OverflowError):
            return False  # it has no JSON form, and is refused
        large = self._cluster.storage.large
        return (is_large or (bool(large) and self._key_of(call) in large)) and self._is_allowed(call)

    def attempt(
        self, message: Message, carry_out: Callable[[Message], None], instead: Callable[[Message], None] | None = None
    ) -> None:
        """Carry out a request at once, unless it is to be carried out later, or turns out to take many steps.

        Args:
            message: the request.
            carry_out: carries it out.
            instead: is called if it takes many steps, and a large one is carried out at once; None: they come later.
        """
        if instead is None and self.accept(message):
            return
        call = message.content
        try:
            in_few_steps(steps_of(call) if isinstance(call, ApiCall) else None, carry_out, message)
        except ManyStepsError:
            (instead or self._put)(message)

    def _put(self, message: Message) -> None:
        self._enqueue(_Waiting(message, call_in(message)))
        self._start()

    def _live(self, call: ApiCall) -> JsonObject | None:
        """Return the stored object that a request names; None if there is none."""
        key = self._key_of(call)
        return None if key is None else self._cluster.storage.find(key)

    def _key_of(self, call: ApiCall) -> ObjectKey | None:
        """Return the key of the object that a request names, None if it names none."""
        found = find_kind(self._cluster.storage.kinds, call) if call.name else None
        return None if found is None else key_for(found, call.namespace, call.name)

    def _enqueue(self, waiting: _Waiting) -> None:
        call = waiting.call
        self._waiting.setdefault(call.node or call.user or call.author, deque()).append(waiting)

    def _start(self) -> None:
        """Begin with the next request, unless one is under way."""
        if self._under_way is not None or not self._waiting:
            return
        sender, queue = next(iter(self._waiting.items()))
        waiting = self._under_way = queue.popleft()
        del self._waiting[sender]
        if queue:
            self._waiting[sender] = queue
        live, preview, results = self._live(waiting.call), self._cluster.preview(), Results()

        def compute() -> None:
            try:
                with short_turns(), results.recorded(), suppress(Exception):  # it writes nothing, and ends before
                    api_calls.serve(preview, waiting.call)
            finally:
                self._module.call_soon(partial(self._computed, waiting, live, results))

        self._module.runtime.call(compute, name=f"{self._module.name}/preview")

    def _computed(self, waiting: _Waiting, live: JsonObject | None, results: Results) -> None:
        """Carry out a request, unless its object has changed meanwhile; then it gets another preview."""
        waiting.attempts += 1
        is_same = self._live(waiting.call) is live
        if waiting.attempts < _ATTEMPTS and not is_same:
            self._enqueue(waiting)
        else:
            self._carry_out(waiting.message, results if is_same else None)
        self._under_way = None
        self._start()
