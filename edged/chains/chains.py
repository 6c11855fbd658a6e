"""Chains: the chains of all pods of the node, and which of them the file does not have yet."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from edged.chains.model import LONGEST_TEXT, Chain, ChainStep
from edged.events.model import EventType, Occurrence
from edged.pods.model import PodRef

MOST_PODS: Final = 500
"""Pods with a chain; the one without a new step for the longest time is dropped."""
NEW_SECONDS: Final = 2.0
"""Seconds after which a new step is written, with all others of that time."""
REPEATED_SECONDS: Final = 60.0
"""Seconds after which the count of a repeated step is written: a probe may fail every second."""


class Chains:
    """The chain of each pod. Thread-safe; never blocks on the disk, which is `ChainWriter`'s.

    Args:
        known: chains from the file, the newest last.
        wake: called with the seconds after which `unwritten` is to be written, on any thread.
    """

    def __init__(self, known: Iterable[Chain] = (), wake: Callable[[float], None] = lambda _seconds: None) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._chains = OrderedDict((each.uid, each) for each in known)
        self._unwritten: dict[str, None] = {}
        """Pods whose chains differ from those in the file."""
        self._due = float("inf")
        """After how many seconds the unwritten ones are written."""

    def record(self, occurrence: Occurrence) -> None:
        """Add an occurrence about a pod to its chain; ignore those about other objects."""
        about = occurrence.about
        if about.kind != "Pod" or not about.uid:
            return
        text = occurrence.message
        step = ChainStep(
            at=occurrence.at / 1e9,
            reason=occurrence.reason,
            text=text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…",
            container=about.field_path.partition("{")[2].rstrip("}"),
            is_warning=occurrence.type is EventType.WARNING,
        )
        with self._lock:
            chain = self._chains.get(about.uid)
            if chain is None:
                chain = self._chains[about.uid] = Chain(about.uid, about.namespace, about.name)
                if len(self._chains) > MOST_PODS:
                    dropped, _ = self._chains.popitem(last=False)
                    self._unwritten[dropped] = None
            else:
                self._chains.move_to_end(about.uid)
            seconds = NEW_SECONDS if chain.add(step) else REPEATED_SECONDS
            self._unwritten[about.uid] = None
            is_earlier, self._due = seconds < self._due, min(seconds, self._due)
        if is_earlier:
            self._wake(seconds)

    def forget(self, ref: PodRef) -> None:
        """Drop the chain of a pod that is removed from the node."""
        with self._lock:
            if self._chains.pop(ref.uid, None) is None:
                return
            self._unwritten[ref.uid] = None
            is_earlier, self._due = self._due > REPEATED_SECONDS, min(REPEATED_SECONDS, self._due)
        if is_earlier:
            self._wake(REPEATED_SECONDS)

    def find(self, namespace: str, name: str) -> bytes | None:
        """Return the chain of the newest pod of this name, as JSON, or None."""
        with self._lock:
            for chain in reversed(self._chains.values()):
                if (chain.namespace, chain.name) == (namespace, name):
                    return msgspec.json.encode(chain)
        return None

    def unwritten(self) -> list[bytes]:
        """Return a line for each chain that the file does not have, or that is gone and the file still has."""
        with self._lock:
            uids, self._unwritten, self._due = self._unwritten, {}, float("inf")
            return [msgspec.json.encode(self._chains.get(uid) or Chain(uid, "", "")) for uid in uids]

    def everything(self) -> Sequence[bytes]:
        """Return a line for each chain."""
        with self._lock:
            return [msgspec.json.encode(chain) for chain in self._chains.values()]
