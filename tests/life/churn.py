"""What happens to an installation all day: pods come and go, what they mount changes, users look, the link is cut."""

import itertools
import time
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from tests.walks.walks import pod
from tests.walks.world import World

_SECONDS_OF_A_POD: Final = 40.0
_SECONDS_OF_A_CUT: Final = 15.0
_SECONDS_BETWEEN_LOOKS: Final = 30.0
_VOLUMES: Final = [
    {"name": "settings", "configMap": {"name": "settings"}},
    {"name": "password", "secret": {"secretName": "password"}},
    {"name": "scratch", "emptyDir": {}},
]
_SCRIPTS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("trap 'exit 0' TERM; (sleep 1000000) & wait $!", {"volumes": _VOLUMES}),
    ("echo done", {"restartPolicy": "Never"}),
    ("echo failed; exit 1", {}),
    ("trap 'exit 0' TERM; (while true; do echo line; sleep 1; done) & wait $!", {"volumes": _VOLUMES[:1]}),
)
"""Pods that run until they are deleted, that complete, that fail again and again, and that log."""


class Churn:
    """The users of an installation, who make and delete so many pods a minute.

    Args:
        world: the installation.
        pods: a minute.
        random: of the order of kinds of pods, and of the moment of a cut.
    """

    def __init__(self, world: World, pods: float, random: Random) -> None:
        self.made = 0
        """Pods so far."""
        self._world, self._pause, self._random = world, 60.0 / pods, random
        self._content = itertools.count()

    def go_on(self, seconds: float) -> None:
        """Let this go on for some time; all pods are gone then. Raises WalkError if a command fails."""
        began = time.monotonic()
        living: list[tuple[float, str]] = []
        cut_at, look_at = began + seconds * self._random.uniform(0.3, 0.6), began + _SECONDS_BETWEEN_LOOKS
        for due in _moments(began, seconds, self._pause):
            self._make(living, due)
            if due >= cut_at:
                cut_at = began + 2 * seconds
                self._world.cut(_SECONDS_OF_A_CUT)
            if due >= look_at:
                look_at = due + _SECONDS_BETWEEN_LOOKS
                self._look(living[-1][1])
            while living and living[0][0] <= due:
                self._delete(living.pop(0)[1])
        self._delete(*(name for _, name in living))
        self._world.until(lambda: not self._names(), "all pods of the churn are gone")

    def _make(self, living: list[tuple[float, str]], now: float) -> None:
        name = f"churn-{self.made}"
        script, spec = self._random.choice(_SCRIPTS)
        content = str(next(self._content))
        made = pod(name, script, "n1", **spec)
        made["metadata"].setdefault("labels", {})["life"] = "churn"
        self._world.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"number": content}},
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}, "stringData": {"of": content}},
            made,
        )
        self.made += 1
        living.append((now + _SECONDS_OF_A_POD, name))

    def _delete(self, *names: str) -> None:
        if names:
            self._world.must(self._world.cloudcore("delete", "pod", *names, "--wait=false"))

    def _look(self, name: str) -> None:
        """Look as users do; a pod may not run yet, and the link may be cut."""
        self._world.must(self._world.cloudcore("get", "pods", "-o", "wide"))
        self._world.cloudcore("logs", name, seconds=20.0)
        self._world.cloudcore("exec", name, "--", "true", seconds=20.0)
        self._world.must(self._world.edgecore("pods"))

    def _names(self) -> str:
        return self._world.must(self._world.cloudcore("get", "pods", "-l", "life=churn", "-o", "name")).out.strip()


def _moments(began: float, seconds: float, pause: float) -> Iterator[float]:
    """Yield moments with a pause between them, each when it has come."""
    for number in range(int(seconds / pause)):
        due = began + number * pause
        time.sleep(max(0.0, due - time.monotonic()))
        yield due
