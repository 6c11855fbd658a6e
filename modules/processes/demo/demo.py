"""The course of the demo."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from modules.apimachinery.kinds import JsonObject
from modules.processes.common.exit_codes import ExitCode
from modules.processes.demo.cluster import DemoCluster, DemoError
from modules.processes.demo.events import Ended, Events, ExampleChanged
from modules.processes.demo.examples import SERVICE, Example, Expectation, ObjectName
from modules.processes.demo.goals import unmet
from modules.processes.demo.rows import Row, row_of
from modules.processes.demo.screen import Screen

_REDRAW_SECONDS = 1.0
"""Ages are shown in seconds."""


class Demo:
    """One run of the demo.

    Args:
        cluster: cloud and edge node.
        events: source of events.
        screen: output.
        examples: examples to apply.
    """

    def __init__(self, cluster: DemoCluster, events: Events, screen: Screen, examples: Sequence[Example]) -> None:
        self._cluster = cluster
        self._events = events
        self._clock = events.clock
        self._screen = screen
        self._examples = cluster.with_own_ports(examples)
        self._expected = {name: goal for example in examples for name, goal in example.expected.items()}
        self._objects: dict[ObjectName, JsonObject] = {}

    def run(self, *, once: bool, seconds: float) -> int:
        """Run to the end and return the exit status.

        Args:
            once: end as soon as all pods are as expected.
            seconds: time limit for the pods.
        """
        started = self._clock.monotonic()
        if not self._start_cluster():
            return ExitCode.INTERRUPTED if once else ExitCode.OK
        reasons = self._until_all_there(started + seconds)
        if self._events.asked_to_end:
            return ExitCode.INTERRUPTED if once else ExitCode.OK
        took = self._clock.monotonic() - started
        if reasons:
            self._screen.print_lines(
                f"not all pods and workloads are where they should be, after {took:.0f} s:", *reasons
            )
            if once or self._cluster.failure():
                self._screen.print_lines(*self._cluster.logs())
                return ExitCode.INTERNAL_ERROR
        else:
            count = f"all {len(self._expected)} pods and workloads"
            self._screen.print_lines(f"{count} are where they should be, after {took:.1f} s")
        return ExitCode.OK if once else self._until_asked_to_end()

    def _start_cluster(self) -> bool:
        """Start everything; return False if a signal came meanwhile."""
        self._screen.print_lines(f"starting cloudcore and edgecore in {self._cluster.directory}")
        try:
            self._cluster.start()
        except DemoError:
            if self._events.asked_to_end:
                return False
            raise
        self._cluster.watch()
        self._cluster.apply([obj for example in self._examples for obj in example.objects])
        self._cluster.ask(name for name in self._expected if name.kind == SERVICE)
        return not self._events.asked_to_end

    def _until_all_there(self, deadline: float) -> list[str]:
        """Show the objects until all are as expected, a process fails, or time runs out; return the reasons if some are
        not.
        """
        while not self._events.asked_to_end:
            self._screen.show(self._rows())
            failure = self._cluster.failure()
            reasons = self._reasons()
            if failure or not reasons:
                return [failure, *reasons] if failure else []
            left = deadline - self._clock.monotonic()
            if left <= 0:
                return reasons
            self._apply_next(min(left, _REDRAW_SECONDS))
        return []

    def _until_asked_to_end(self) -> int:
        self._screen.print_lines("", *hints(self._cluster, self._shown_example()), "")
        while not self._events.asked_to_end:
            self._screen.show(self._rows())
            if failure := self._cluster.failure():
                self._screen.print_lines(failure, *self._cluster.logs())
                return ExitCode.INTERNAL_ERROR
            self._apply_next(_REDRAW_SECONDS)
        return ExitCode.OK

    def _shown_example(self) -> Path:
        """Return the example that is most interesting to change: one with several objects."""
        return max(self._examples, key=lambda example: len(example.objects)).path

    def _apply_next(self, seconds: float) -> None:
        """Wait for the next event and apply it."""
        match self._events.next(seconds):
            case ExampleChanged(kind, obj, deleted):
                meta = obj["metadata"]
                name = ObjectName(meta.get("namespace") or "default", meta["name"], kind)
                if deleted:
                    self._objects.pop(name, None)
                else:
                    self._objects[name] = obj
            case Ended(number):
                self._screen.print_lines(f"ending: {number.name}")

    def _rows(self) -> list[Row]:
        now = self._clock.now()
        return [row_of(name, goal, self._objects.get(name), now) for name, goal in self._expected.items()]

    def _reasons(self) -> list[str]:
        """Return why pods are not as expected."""
        return [
            f"{name.shown} {reason}" for name, goal in self._expected.items() if (reason := self._reason(name, goal))
        ]

    def _reason(self, name: ObjectName, goal: Expectation) -> str:
        obj = self._objects.get(name)
        return unmet(goal, obj) if obj is not None else "has not been reported by the cloud"


def hints(cluster: DemoCluster, example: Path) -> list[str]:
    """Return an address of the page, and commands to try next, which work in the directory where the demo was
    started.
    """
    cloudcore = _command("cloudcore")
    socket, file = shlex.quote(str(cluster.socket)), shlex.quote(_from_here(example))
    return [
        f"page:    {cluster.page_address()}",
        f"         once, within a minute; then    {cloudcore} page --socket {socket}    prints another address",
        f"watch:   {cloudcore} get pods --watch --socket {socket}",
        f"change:  edit {file} and {cloudcore} apply -f {file} --socket {socket}",
        f"look:    tail -f {shlex.quote(str(cluster.pod_logs))}/*/*/*.log    or    curl http://127.0.0.1:{cluster.port}/pods",
    ]


def _command(name: str) -> str:
    """Return the command of a console script of this installation, or of its module if it is not installed."""
    script = Path(sys.executable).with_name(name)
    if not script.exists():
        return f"{shlex.quote(_from_here(Path(sys.executable)))} -m modules.processes.{name}"
    return shlex.quote(_from_here(script))


def _from_here(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
