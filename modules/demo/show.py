"""The course of the demo: start, apply, show until all pods are where they should be, say what to try, wait."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from modules.demo.events import Ended, Events, PodChanged
from modules.demo.examples import Example, Expectation, PodName
from modules.demo.goals import unmet
from modules.demo.rows import Row, row_of
from modules.demo.screen import Screen
from modules.demo.stage import Stage, StageError
from modules.edgecontroller.kinds import JsonObject
from modules.edgecore.exit_codes import ExitCode

_REDRAW_SECONDS = 1.0
"""Ages are counted in seconds."""


class Show:
    """One run of the demo.

    Args:
        stage: where everything runs.
        events: what is waited for.
        screen: where it is shown.
        examples: what is applied.
    """

    def __init__(self, stage: Stage, events: Events, screen: Screen, examples: Sequence[Example]) -> None:
        self._stage = stage
        self._events = events
        self._clock = events.clock
        self._screen = screen
        self._examples = examples
        self._expected = {name: goal for example in examples for name, goal in example.expected.items()}
        self._pods: dict[PodName, JsonObject] = {}

    def run(self, *, once: bool, seconds: float) -> int:
        """Runs until the end; gives the exit status.

        Args:
            once: end as soon as all pods are where they should be.
            seconds: how long they may take.
        """
        started = self._clock.monotonic()
        if not self._raise_curtain():
            return ExitCode.INTERRUPTED if once else ExitCode.OK
        reasons = self._until_all_there(started + seconds)
        if self._events.asked_to_end:
            return ExitCode.INTERRUPTED if once else ExitCode.OK
        took = self._clock.monotonic() - started
        if reasons:
            self._screen.say(f"not all pods are where they should be, after {took:.0f} s:", *reasons)
            if once or self._stage.trouble():
                self._screen.say(*self._stage.logs())
                return ExitCode.INTERNAL_ERROR
        else:
            self._screen.say(f"all {len(self._expected)} pods are where they should be, after {took:.1f} s")
        return ExitCode.OK if once else self._until_asked_to_end()

    def _raise_curtain(self) -> bool:
        """Starts everything; False when somebody asked to end meanwhile."""
        self._screen.say(f"starting cloudcore and edgecore in {self._stage.directory}")
        try:
            self._stage.start()
        except StageError:
            if self._events.asked_to_end:
                return False
            raise
        self._stage.watch()
        self._stage.apply([obj for example in self._examples for obj in example.objects])
        return not self._events.asked_to_end

    def _until_all_there(self, deadline: float) -> list[str]:
        """Shows what happens until all pods are there, or it makes no sense to go on; what is wrong then."""
        while not self._events.asked_to_end:
            self._screen.show(self._rows())
            trouble = self._stage.trouble()
            reasons = self._reasons()
            if trouble or not reasons:
                return [trouble, *reasons] if trouble else []
            left = deadline - self._clock.monotonic()
            if left <= 0:
                return reasons
            self._take(min(left, _REDRAW_SECONDS))
        return []

    def _until_asked_to_end(self) -> int:
        self._screen.say("", *hints(self._stage, self._shown_example()), "")
        while not self._events.asked_to_end:
            self._screen.show(self._rows())
            if trouble := self._stage.trouble():
                self._screen.say(trouble, *self._stage.logs())
                return ExitCode.INTERNAL_ERROR
            self._take(_REDRAW_SECONDS)
        return ExitCode.OK

    def _shown_example(self) -> Path:
        """The example that is most worth changing: one with more than a pod in it."""
        return max(self._examples, key=lambda example: len(example.objects)).path

    def _take(self, seconds: float) -> None:
        """Waits for the next event and takes note of it."""
        match self._events.next(seconds):
            case PodChanged(pod, deleted):
                meta = pod["metadata"]
                name = PodName(meta.get("namespace") or "default", meta["name"])
                if deleted:
                    self._pods.pop(name, None)
                else:
                    self._pods[name] = pod
            case Ended(number):
                self._screen.say(f"ending: {number.name}")

    def _rows(self) -> list[Row]:
        now = self._clock.now()
        return [row_of(name, goal, self._pods.get(name), now) for name, goal in self._expected.items()]

    def _reasons(self) -> list[str]:
        """What is not as it should be."""
        return [
            f"{name.name} {reason}" for name, goal in self._expected.items() if (reason := self._reason(name, goal))
        ]

    def _reason(self, name: PodName, goal: Expectation) -> str:
        pod = self._pods.get(name)
        return unmet(goal, pod) if pod is not None else "has not been reported by the cloud"


def hints(stage: Stage, example: Path) -> list[str]:
    """Three things to try next, as commands that work as they stand from where the demo was started."""
    cloudcore = _command("cloudcore")
    socket, file = shlex.quote(str(stage.socket)), shlex.quote(_from_here(example))
    return [
        f"watch:   {cloudcore} get pods --watch --socket {socket}",
        f"change:  edit {file} and {cloudcore} apply -f {file} --socket {socket}",
        f"look:    tail -f {shlex.quote(str(stage.pod_logs))}/*/*/*.log    or    curl http://127.0.0.1:{stage.port}/pods",
    ]


def _command(name: str) -> str:
    """A console script of this installation, from here; the module when it is not installed."""
    script = Path(sys.executable).with_name(name)
    if not script.exists():
        return f"{shlex.quote(_from_here(Path(sys.executable)))} -m modules.{name}"
    return shlex.quote(_from_here(script))


def _from_here(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
