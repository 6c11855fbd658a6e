"""The actions of a ConfigUpdateJob: `edgecore config set`, with its probation, for the keys that the owner allows.

The program checks the values as it does for the owner of the node, and puts the former file back unless the node is as
well as before. The settings that say what a cloud may do here are no job's, whatever the owner has listed.
"""

from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from beehive import Module
from modules.apimachinery.node_jobs import OWNER_DENIES, OWNERS_KEY, ConfigSpec
from modules.edge.taskmanager.actions import ActionEnd, Done
from modules.edge.taskmanager.programs import EVERY, LOST, ProgramEnd, is_in_time, run_program

NO_FILE: Final = "this node has no configuration file that a job could change"
INTERRUPTED: Final = "the change was interrupted before the node had the new settings"
_OWNERS: Final = ("upgrade.", "modules.taskmanager.")
"""Beginnings of the keys, in lower case, by which the owner decides on the cloud's jobs."""
_SHOWN: Final = 100
"""Characters of a key in a message."""


class SettingsState(msgspec.Struct, frozen=True):
    """The node's configuration, and its last change."""

    is_set: bool
    """Whether it has the settings that are asked about."""
    is_under_way: bool
    """Whether a change is prepared or carried out."""
    report: str = ""
    """Why the last change has gone back."""


class SettingsCommands(Protocol):
    """The node's configuration file. No method waits."""

    def state(self, settings: Mapping[str, str]) -> SettingsState | None:
        """Return its state, for settings by dotted key; None without a file."""

    def begin(self, settings: Mapping[str, str], *, only_check: bool) -> None:
        """Start the program. Raises OSError."""

    def end(self) -> ProgramEnd | None:
        """Return how the program has ended; None while it runs, and if this edgecore has started none."""


class SettingsUpdates:
    """The updates of settings: the actions, carried out on the module's thread, which poll what is under way.

    Args:
        module: taskmanager.
        commands: of the node.
        allowed: the keys that a job may set.
    """

    def __init__(self, module: Module, commands: SettingsCommands, allowed: tuple[str, ...]) -> None:
        self._module = module
        self._commands = commands
        self._allowed = frozenset(key.lower() for key in allowed)

    def check(self, spec: ConfigSpec, done: Done) -> None:
        """Check the keys, and let the program check the values."""
        settings = spec.update_fields or {}
        fault = self._fault_of(settings)
        if fault:
            done(ActionEnd(fault))
        elif self._commands.state(settings) is None:
            done(ActionEnd(NO_FILE))
        else:
            self._run(settings, done, only_check=True)

    def update(self, spec: ConfigSpec, done: Done, *, is_resumed: bool) -> None:
        """Run the program, or follow a change that an edgecore before this one has begun: the program refuses to begin
        during another change.
        """
        settings, may_wait = spec.update_fields or {}, is_in_time(self._module, spec)

        def poll() -> None:
            state, fault = self._commands.state(settings), self._fault_of(settings)
            if state is None:
                done(ActionEnd(NO_FILE))
            elif state.is_under_way and is_resumed and may_wait():
                self._module.after(EVERY, poll)
            elif state.is_set:
                done(ActionEnd())
            elif is_resumed or fault:
                done(ActionEnd(fault or (LOST if state.is_under_way else state.report or INTERRUPTED)))
            else:
                self._run(settings, done, only_check=False)

        poll()

    def roll_back(self, spec: ConfigSpec, done: Done) -> None:
        """Say whether the former settings are there after a failed change: the updater has gone back by itself."""
        settings, may_wait = spec.update_fields or {}, is_in_time(self._module, spec)

        def poll() -> None:
            state = self._commands.state(settings)
            if state is not None and state.is_under_way:
                if may_wait():
                    self._module.after(EVERY, poll)
                else:
                    done(ActionEnd(LOST))
            else:
                done(ActionEnd("the node has the new settings" if state is not None and state.is_set else ""))

        poll()

    def _fault_of(self, settings: Mapping[str, str]) -> str:
        """Return why the keys are not for a job; empty if they are."""
        if not settings:
            return "the job names no setting"
        for key in settings:
            if key.lower().startswith(_OWNERS):
                return f"{key[:_SHOWN]} {OWNERS_KEY}: no job may set it"
            if key.lower() not in self._allowed:
                return f"{OWNER_DENIES} let jobs set {key[:_SHOWN]} (modules.taskManager.allowedKeys)"
        return ""

    def _run(self, settings: Mapping[str, str], done: Done, *, only_check: bool) -> None:
        run_program(
            self._module,
            lambda: self._commands.begin(settings, only_check=only_check),
            self._commands.end,
            done,
            "edgecore config set",
        )
