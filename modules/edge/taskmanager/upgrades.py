"""The actions of a NodeUpgradeJob: `edgecore upgrade VERSION`, which outlives the edgecore that has begun it.

The program checks the bundle's source and signature, and all that it checks for the owner of the node; the job names a
version and nothing else. Neither an image nor a digest in it is read, and no job can allow a downgrade.
"""

import re
from typing import Final, Protocol

import msgspec

from beehive import Module
from beehive.patterns import pattern
from modules.apimachinery.node_jobs import UpgradeSpec
from modules.edge.taskmanager.actions import ActionEnd, Done
from modules.edge.taskmanager.programs import EVERY, LOST, ProgramEnd, is_in_time, run_program

_VERSION: Final = pattern(r"v?([0-9][0-9A-Za-z.+]{0,60})", re.ASCII)
NOT_INSTALLED: Final = "this edgecore is in no directory of versions: `edgecore upgrade` makes one, on the node"
INTERRUPTED: Final = "the upgrade was interrupted before the switch"


class UpgradeState(msgspec.Struct, frozen=True):
    """The versions of a node."""

    current: str
    is_under_way: bool
    """Whether an upgrade is prepared or carried out."""
    origin: str = ""
    target: str = ""
    """Versions of the last upgrade."""
    report: str = ""
    """What the last upgrade has found."""


class UpgradeCommands(Protocol):
    """The node's installation. No method waits."""

    def state(self) -> UpgradeState | None:
        """Return its state; None if this edgecore is in no installation."""

    def begin(self, version: str, *, only_check: bool) -> None:
        """Start the program. Raises OSError."""

    def end(self) -> ProgramEnd | None:
        """Return how the program has ended; None while it runs, and if this edgecore has started none."""


class NodeUpgrades:
    """The upgrades of the node: the actions, carried out on the module's thread, which poll what is under way.

    Args:
        module: taskmanager.
        commands: of the node.
    """

    def __init__(self, module: Module, commands: UpgradeCommands) -> None:
        self._module = module
        self._commands = commands

    def check(self, spec: UpgradeSpec, done: Done) -> None:
        """Fetch the bundle and check it."""
        state, version = self._commands.state(), version_of(spec)
        if state is None:
            done(ActionEnd(NOT_INSTALLED))
        elif not version:
            done(ActionEnd(f"no version of edgecore: {spec.version[:60]!r}"))
        elif state.current == version and not state.is_under_way:
            done(ActionEnd())
        else:
            self._run(version, done, only_check=True)

    def back_up(self, done: Done) -> None:
        """Say which version is kept: the program copies the database itself, when it switches.

        As `keadm backup edge` does, it names no version before, and then the one that runs: KubeEdge's cloud shows the
        second as the node's current version.
        """
        state = self._commands.state()
        current = "" if state is None else state.current
        done(ActionEnd("" if state is not None else NOT_INSTALLED, f",{current}"))

    def upgrade(self, spec: UpgradeSpec, done: Done, *, is_resumed: bool) -> None:
        """Run the program, or follow an upgrade that an edgecore before this one has begun: the program refuses to
        begin during another change.
        """
        version, may_wait = version_of(spec), is_in_time(self._module, spec)

        def poll() -> None:
            state = self._commands.state()
            if state is None:
                done(ActionEnd(NOT_INSTALLED, f",{version}"))
            elif state.is_under_way and is_resumed and may_wait():
                self._module.after(EVERY, poll)
            elif state.current == version and not state.is_under_way:
                done(ActionEnd("", f"{state.origin or version},{version}"))
            elif not is_resumed:
                self._run(version, lambda end: done(ActionEnd(end.reason, f"{state.current},{version}")))
            else:
                why = LOST if state.is_under_way else state.report if state.target == version else INTERRUPTED
                done(ActionEnd(why or INTERRUPTED, f"{state.current},{version}"))

        poll()

    def roll_back(self, spec: UpgradeSpec, done: Done) -> None:
        """Say what runs after a failed upgrade: the updater has gone back by itself, or had not switched."""
        version, may_wait = version_of(spec), is_in_time(self._module, spec)

        def poll() -> None:
            state = self._commands.state()
            if state is not None and state.is_under_way and may_wait():
                self._module.after(EVERY, poll)
            elif state is not None and state.is_under_way:
                done(ActionEnd(LOST, f"{version},"))
            elif state is None or state.current == version:
                done(ActionEnd(NOT_INSTALLED if state is None else f"{version} is current", f"{version},"))
            else:
                done(ActionEnd("", f"{version},{state.current}"))

        poll()

    def _run(self, version: str, done: Done, *, only_check: bool = False) -> None:
        run_program(
            self._module,
            lambda: self._commands.begin(version, only_check=only_check),
            self._commands.end,
            done,
            "edgecore upgrade",
        )


def version_of(spec: UpgradeSpec) -> str:
    """Return the version in a spec, without KubeEdge's `v`; empty if it is none."""
    found = _VERSION.fullmatch(spec.version)
    return found[1] if found is not None else ""
