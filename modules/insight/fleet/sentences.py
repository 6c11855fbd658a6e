"""The first sentence of a picture of a fleet."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from modules.apimachinery.printing.ages import human_duration
from modules.insight.fleet.rows import FleetPodRow, NodeRow
from modules.insight.fleet.states import AWAY, BEHIND, CONNECTED, LOST, NEVER

CERTIFICATE_DAYS: Final = 14
"""A certificate is mentioned so many days before its end."""
_DAY: Final = 86_400.0
_CHANGING: Final = "changing"
_STATES: Final = (
    (_CHANGING, "being changed by a job"),
    (AWAY, "away"),
    (LOST, "lost"),
    (BEHIND, "behind"),
    (NEVER, "never connected"),
)


class SentencePart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a sentence; one with a query is a link to the nodes that it selects."""

    text: str
    query: str = ""


def fleet_sentence(nodes: Sequence[NodeRow]) -> list[SentencePart]:
    """Return the sentence about the links of all nodes."""
    if not nodes:
        return [SentencePart("No node has joined yet.")]
    counts = Counter(_CHANGING if each.is_changing else each.state for each in nodes)
    total = len(nodes)
    up = sum(each.state in (CONNECTED, BEHIND) for each in nodes)
    if up == total and not counts[BEHIND] and not counts[_CHANGING]:
        return [SentencePart(f"All {total} nodes are connected." if total > 1 else "The node is connected.")]
    if total == 1:
        state, words = next((state, words) for state, words in _STATES if counts[state])
        has = "has " if state == NEVER else "is "
        return [SentencePart(f"The node {has}"), _selecting(state, words), SentencePart(".")]
    parts = [SentencePart(f"{up} of {total} nodes {'is' if up == 1 else 'are'} connected")]
    for state, words in _STATES:
        if counts[state]:
            verb = "" if state == NEVER else "is " if counts[state] == 1 else "are "
            parts += [
                SentencePart(", " if len(parts) > 1 else "; "),
                _selecting(state, f"{counts[state]} {verb}{words}"),
            ]
    return [*parts, SentencePart(".")]


def _selecting(state: str, text: str) -> SentencePart:
    return SentencePart(text, "" if state == _CHANGING else f"is:{state}")


def pods_sentence(pods: Sequence[FleetPodRow], nodes: Sequence[NodeRow]) -> str:
    """Return the sentence about the pods, pods of nodes that are away apart: nothing is known of them now."""
    away = {each.name for each in nodes if each.state in (AWAY, NEVER)}
    here = [each for each in pods if each.node not in away]
    return counted_pods(len(here), sum(not each.is_troubled for each in here), len(pods) - len(here))


def counted_pods(here: int, ready: int, gone: int) -> str:
    """Return the same sentence for numbers.

    Args:
        here: pods whose nodes are not away.
        ready: how many of these run.
        gone: pods on nodes that are away.
    """
    if not here + gone:
        return "There are no pods."
    text = f"{ready} of {here} pods run" if here != 1 else f"The pod {'runs' if ready else 'does not run'}"
    if gone:
        verb = "is" if gone == 1 else "are"
        begin = f"{text}; {gone} more" if here else _count(gone, "pod")
        return f"{begin} {verb} on nodes that are away, where their state is the last that was reported."
    return f"{text}."


def node_sentence(row: NodeRow, now: float, *, has_all_pods: bool = True) -> str:
    """Return the sentence about a node: its link, pods, pressures, and a certificate or clock that needs somebody.

    Args:
        row: the node.
        now: seconds since 1970.
        has_all_pods: whether its pods are all counted; else they are left out.
    """
    pods, joined = "no pod is bound to it", "; "
    if row.pods:
        run = "ran" if row.state == AWAY else "runs" if row.pods == 1 else "run"
        pods = f"{row.ready} of {_count(row.pods, 'pod')} {run}"
    if row.state == AWAY and row.pods:
        pods = f"when it was last heard of, {pods}"
    elif row.state == CONNECTED:
        joined = ", and "
    text = f"{row.name} {link_words(row, now)}"
    if has_all_pods and row.state != NEVER:
        text += f"{joined}{pods}"
    if row.marks and row.state != AWAY:
        text += f"; it has {' and '.join(row.marks)}"
    ends, clock = certificate_words(row.certificate_ends, now), clock_words(row.clock_ahead)
    text += f"; its certificate {ends}" if ends else ""
    return f"{text}; its clock {clock}." if clock else f"{text}."


def link_words(row: NodeRow, now: float) -> str:
    """Return the end of a sentence about a node: its link."""
    age = human_duration(int(max(0.0, now - row.since))) if row.since else ""
    period = f" for {age}" if age else ""
    if row.is_changing:
        link = "" if row.state == BEHIND else f", and has had no connection{period}"
        return f"{row.reason.removeprefix('it ')}{link}"
    if row.state == AWAY:
        return f"has been away{period}{f' ({row.reason})' if row.reason else ''}"
    if row.state == NEVER:
        return f"has never been connected{f': {row.reason}' if row.reason else ''}"
    if row.state == LOST:
        return f"is lost{f': {row.reason}' if row.reason else ''}"
    if row.state == BEHIND:
        word = f" ({row.last_word})" if row.last_word and row.waiting else ""
        return f"is behind: {row.reason or 'its state is not known'}{word}"
    return f"has been connected{period}"


def clock_words(ahead: int) -> str:
    """Return the end of a sentence about a clock that is wrong; else ""."""
    return f"is {human_duration(abs(ahead))} {'ahead' if ahead > 0 else 'behind'}" if ahead else ""


def certificate_words(ends: float, now: float, days: int = CERTIFICATE_DAYS) -> str:
    """Return the sentence about a certificate that has ended, or ends within some days; else ""."""
    left = ends - now
    if not ends or left > days * _DAY:
        return ""
    if left <= 0:
        return "has ended"
    whole = int(left // _DAY)
    return f"ends in {_count(whole, 'day') if whole else human_duration(int(left))}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
