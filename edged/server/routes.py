"""What the local HTTP server answers, from snapshots that modules leave here.

A snapshot is replaced as a whole and never changed, so that a slow reader cannot hold up a module.
"""

from collections.abc import Callable

import msgspec

from beehive import Hive, State
from edged.api import Pod, encode
from edged.server.http import Answer, Handler, text

_JSON = "application/json"


class PodList(msgspec.Struct):
    """v1.PodList as KubeEdge's edged serves it: with kind and version, which kubectl-like tools want."""

    items: tuple[Pod, ...]
    kind: str = "PodList"
    apiVersion: str = "v1"  # noqa: N815 - a key of the wire


class Snapshots:
    """Where the modules leave what is served."""

    pods: tuple[Pod, ...] = ()
    """The pods of this node, with the statuses that edged computed last."""


def routes(snapshots: Snapshots, hive: Hive, metrics: Callable[[], bytes]) -> dict[str, Handler]:
    """The paths and their handlers; `metrics` makes the Prometheus text."""
    return {
        "/pods": lambda: Answer(200, _JSON, encode(PodList(snapshots.pods))),
        "/healthz": lambda: _health(hive),
        "/metrics": lambda: Answer(200, "text/plain; version=0.0.4; charset=utf-8", metrics()),
    }


def _health(hive: Hive) -> Answer:
    """`ok` when every module is ready; otherwise which is not, and why."""
    modules = hive.readiness().items()
    ill = [f"{name}: {r.state} {r.reason}".rstrip() for name, r in modules if r.state is not State.READY]
    return text(503, "\n".join(ill) + "\n") if ill else text(200, "ok")
