"""When answers were acted on in the recorded run.

The trace has the time when an answer was put into the inbox of edged, not the time when it was handled. On a busy
machine other things were handled in between, such as the result of a worker, which had been put there before. The first
message that edged sent because of the answer tells, unless a worker called the runtime because of it before that;
metamanager sends nothing before its commit.
"""

from collections.abc import Iterable
from typing import Final

from beehive.names import ModuleName
from beehive.trace import CriCall, Delivered
from modules.lab.replay.outputs import sent_at

_LATE: Final = 0.25
"""Seconds after which something else may have been the reason to send a message just then, such as a timer."""

_STEP: Final = 1e-9
"""Seconds between two answers that are put off together."""


def acted_at(deliveries: Iterable[Delivered], calls: Iterable[CriCall] = ()) -> dict[int, float]:
    """Return when edged acted first because of an answer, by the span of the answer, if it sent a message then."""
    known = list(deliveries)
    answers = {one.span: one for one in known if one.way == "response" and one.module == ModuleName.EDGED}
    found: dict[int, float] = {}
    for one in known:
        answer = answers.get(one.cause)
        if answer is not None and one.sender == ModuleName.EDGED and answer.time < sent_at(one) <= answer.time + _LATE:
            found[answer.span] = min(sent_at(one), found.get(answer.span, float("inf")))
    for call in calls:
        if call.cause in found:
            found[call.cause] = min(max(answers[call.cause].time, call.time - call.seconds), found[call.cause])
    _keep_order(answers.values(), found)
    return found


def _keep_order(answers: Iterable[Delivered], found: dict[int, float]) -> None:
    """Put off answers behind a put-off one: edged handles them in the order that they came."""
    latest = float("-inf")
    for answer in sorted(answers, key=lambda one: one.span):
        if answer.span not in found and answer.time <= latest:
            found[answer.span] = latest + _STEP
        latest = max(latest, found.get(answer.span, latest))
