"""The journal of an upgrade: what the updater is to do, and how far it has come."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

LARGEST_JOURNAL: Final = 4 * 1024 * 1024


class Phase(StrEnum):
    """How far an upgrade has come."""

    STAGED = "staged"
    """The version is complete and was checked; the link is as it was."""
    SWITCHING = "switching"
    """The link may be on either version."""
    PROBATION = "probation"
    """The link is on the new version, which is watched."""
    ROLLING_BACK = "rolling back"
    """The node goes back; the link may be on either version."""
    COMMITTED = "committed"
    """The end: the new version."""
    ROLLED_BACK = "rolled back"
    """The end: the earlier version."""


UNFINISHED: Final = (Phase.SWITCHING, Phase.PROBATION, Phase.ROLLING_BACK)


@dataclass(frozen=True)
class NodeHandle:
    """What the updater has to know of the node."""

    lock: str
    """File that edgecore locks while it runs, with its process id."""
    socket: str
    """The owner's socket."""
    options: list[str]
    """Options that lead any command to the node."""
    arguments: list[str]
    """Words after `edgecore run`."""
    unit: str = ""
    """Unit of systemd that runs it; empty if it is a process that nobody starts again."""
    user: bool = False
    """Whether the unit is one of the user's service manager."""


@dataclass(frozen=True)
class NodeObservation:
    """The node as it answers on its socket."""

    version: str
    connected: bool
    unready: list[str]
    """Modules that are not ready."""
    containers: dict[str, str]
    """Ids of the containers that run, by namespace, pod, uid and name; empty for any id."""
    memory: int = 0
    """Bytes that edgecore has resident; 0 if they are not known."""


@dataclass(frozen=True)
class ProbationLimits:
    """Bounds of the probation."""

    within: float = 600.0
    """Seconds within which the node has to be well."""
    steady: float = 120.0
    """Seconds for which it has to be well without a break."""
    every: float = 2.0
    """Seconds between two looks."""
    exits: int = 3
    """How often the new version may end by itself."""

    @classmethod
    def of(cls, within: float, steady: float) -> ProbationLimits:
        """Return limits with several looks, also at a node that has to be well for a few seconds only."""
        return cls(within, steady, min(cls.every, steady / 8))


def boot_id() -> str:
    """Return the run of the kernel; empty if it is not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@dataclass
class UpgradeJournal:
    """An upgrade."""

    origin: str
    target: str
    node: NodeHandle
    before: NodeObservation
    problems: list[str]
    """Checks of `doctor` that failed before."""
    database: str
    """File of the node's database."""
    schema: int
    """The schema of the database before."""
    inode: int
    """The inode of that file."""
    limits: ProbationLimits = field(default_factory=ProbationLimits)
    phase: Phase = Phase.STAGED
    boots: int = 3
    """Starts of the node without an updater that the probation still survives."""
    report: list[str] = field(default_factory=list)
    """What was found, in words."""
    configuration: str = ""
    """File of the configuration that is changed; empty where the version changes."""
    boot: str = field(default_factory=boot_id)
    """Run of the kernel in which the containers have the ids in `before`."""

    @property
    def subject(self) -> str:
        """What is on probation, in words."""
        return "the configuration" if self.configuration else self.target


def read_json(text: bytes) -> Any:
    """Return a JSON value. Raises ValueError, also for one that is nested too deeply for this interpreter."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("JSON is nested too deeply") from error


def decode_journal(text: bytes) -> UpgradeJournal:
    """Return a journal; what a later version has added to it is left out. Raises ValueError if it is none."""
    try:
        given: dict[str, Any] = read_json(text)
        parts = {"node": NodeHandle, "before": NodeObservation, "limits": ProbationLimits}
        made = {name: kind(**_known(kind, given[name])) for name, kind in parts.items()}
        return UpgradeJournal(**{**_known(UpgradeJournal, given), **made, "phase": Phase(given["phase"])})
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"no journal of an upgrade: {error}") from error


def _known(kind: type[Any], given: dict[str, Any]) -> dict[str, Any]:
    return {each.name: given[each.name] for each in fields(kind) if each.name in given}
