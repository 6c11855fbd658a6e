"""Callers that wait for the answer of a node."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import NamedTuple

from beehive.clock import Timer
from beehive.module import Module
from modules.apimachinery.kinds import ObjectKey
from modules.cloud.router.rest_service import RestAnswer, own_response

MOST_OF_RULE = 32
"""Callers of one Rule that wait."""
MOST_OF_NAMESPACE = 96
"""Callers of all Rules of a namespace that wait: each has one of the 256 connections of all callers."""

Answered = Callable[[RestAnswer, str], None]
"""Takes the answer, and why the call has failed, "" if it has not."""


class _WaitingCall(NamedTuple):
    node: str
    rule: ObjectKey
    answered: Answered
    timer: Timer


class WaitingCalls:
    """Each ends once: by the answer of the node that was asked, by the end of its connection, or of the time.

    Args:
        module: the router.
        seconds: for an answer.
    """

    def __init__(self, module: Module, seconds: float) -> None:
        self._module = module
        self._seconds = seconds
        self._calls: dict[str, _WaitingCall] = {}
        self._of_rule: Counter[ObjectKey] = Counter()
        self._of_namespace: Counter[str] = Counter()

    def has_room(self, rule: ObjectKey) -> bool:
        """Return whether another caller of a Rule may wait."""
        return self._of_rule[rule] < MOST_OF_RULE and self._of_namespace[rule.namespace] < MOST_OF_NAMESPACE

    def add(self, message_id: str, node: str, rule: ObjectKey, answered: Answered, seconds: float | None) -> None:
        """Wait for the answer to a message, which is sent afterwards; not longer than the caller, if that is known."""
        allowed = self._seconds if seconds is None else min(seconds, self._seconds)
        timer = self._module.after(allowed, partial(self._expire, message_id, allowed))
        self._calls[message_id] = _WaitingCall(node, rule, answered, timer)
        self._of_rule[rule] += 1
        self._of_namespace[rule.namespace] += 1

    def answer(self, message_id: str, node: str, answer: RestAnswer, failure: str) -> bool:
        """Take a node's answer; return False if this node was not asked, or the call has ended."""
        waiting = self._calls.get(message_id)
        if waiting is None or waiting.node != node:
            return False
        self._end(message_id, answer, failure)
        return True

    def node_gone(self, node: str) -> None:
        """End the calls of a node that has disconnected."""
        why = f"the connection of node {node} has ended; whether the application was called is not known"
        for each in [key for key, waiting in self._calls.items() if waiting.node == node]:
            self._end(each, own_response(HTTPStatus.BAD_GATEWAY, why), why)

    def end_all(self, why: str) -> None:
        """End all calls."""
        for each in list(self._calls):
            self._end(each, own_response(HTTPStatus.SERVICE_UNAVAILABLE, why), why)

    def _expire(self, message_id: str, seconds: float) -> None:
        waiting = self._calls.get(message_id)
        if waiting is not None:
            why = f"node {waiting.node} has not answered within {seconds:g} s"
            self._end(message_id, own_response(HTTPStatus.GATEWAY_TIMEOUT, why), why)

    def _end(self, message_id: str, answer: RestAnswer, failure: str) -> None:
        waiting = self._calls.pop(message_id)
        waiting.timer.cancel()
        self._of_rule[waiting.rule] -= 1
        if not self._of_rule[waiting.rule]:
            del self._of_rule[waiting.rule]
        self._of_namespace[waiting.rule.namespace] -= 1
        if not self._of_namespace[waiting.rule.namespace]:
            del self._of_namespace[waiting.rule.namespace]
        waiting.answered(answer, failure)
