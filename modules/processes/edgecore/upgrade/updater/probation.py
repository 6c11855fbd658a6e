"""The probation: what a version lacks, and how often it ends."""

from __future__ import annotations

import sys
from typing import Final

from .journal import NodeObservation, UpgradeJournal
from .node_control import NodeControl

_MOST_LOGGED: Final = 20
"""Lines about what one probation lacks: the memory that it names may be another one at each look."""
_MORE_MEMORY: Final = 256 * 1024 * 1024
"""Bytes that the new version may have more than the one before, or twice as many."""


def watch(journal: UpgradeJournal, node: NodeControl) -> str:
    """Return why the node has to go back; empty if it is well. What it lacks meanwhile goes into the log."""
    limits, began, logged = journal.limits, node.monotonic(), set[str]()
    since: float | None = None
    while True:
        exits = node.exits()
        if exits >= limits.exits:
            return f"{journal.subject} ended {exits} times"
        trouble = trouble_of(journal, node.observe())
        now = node.monotonic()
        since = None if trouble else now if since is None else since
        if since is not None and now - since >= limits.steady:
            trouble = _new_problems(journal, node)
            if not trouble:
                return ""
        if trouble and trouble not in logged and len(logged) < _MOST_LOGGED:
            sys.stderr.write(f"updater: {journal.subject}: {trouble}\n")
            logged.add(trouble)
        if now - began >= limits.within:
            return f"not well within {limits.within:.0f} s: {trouble or 'not for long enough'}"
        node.wait(limits.every)


def _new_problems(journal: UpgradeJournal, node: NodeControl) -> str:
    found = node.problems()
    if found is None:
        return "its `edgecore doctor` does not work"
    new = sorted(set(found) - set(journal.problems))
    return f"`edgecore doctor` finds what it did not find before: {', '.join(new)}" if new else ""


def trouble_of(journal: UpgradeJournal, seen: NodeObservation | None) -> str:
    """Return what is worse than before the upgrade; empty if nothing is."""
    before = journal.before
    if seen is None:
        return "edgecore does not answer"
    if seen.version != journal.target:
        return f"edgecore {seen.version} runs"
    if unready := sorted(set(seen.unready) - set(before.unready)):
        return f"modules are not ready: {', '.join(unready)}"
    if before.connected and not seen.connected:
        return "the node is not connected"
    if before.memory and seen.memory > max(2 * before.memory, before.memory + _MORE_MEMORY):
        return f"edgecore has {seen.memory >> 20} MiB of memory, and had {before.memory >> 20}"
    for name, identity in before.containers.items():
        if name not in seen.containers or identity not in ("", seen.containers[name]):
            return f"a container does not run on as it was: {name}"
    return ""
