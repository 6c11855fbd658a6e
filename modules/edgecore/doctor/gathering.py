"""Gathers everything at the same time, each part within a deadline.

A thread for each part, outside the actor model: there is no bus here, every part blocks in a call of the system, and
one that never comes back (a name server, a socket that hangs) must not keep the others, nor the end of the process: so
they are daemons, and what is late is left out.
"""

import os
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final

from beehive import Clock
from modules.edgecore.config.dangers import is_unisolated_root
from modules.edgecore.config.loading import LoadResult
from modules.edgecore.damaged import damaged
from modules.edgecore.doctor import databases, machine, network, node
from modules.edgecore.doctor.facts import Configured, Facts
from modules.edgecore.settings import edged_settings

SECONDS: Final = 6.0
"""That all of it may take: two servers, each a step of three seconds at most beyond the first."""

Parts = dict[str, Callable[[], Any]]


def facts(loaded: LoadResult, clock: Clock) -> Facts:
    """Everything about a node."""
    config = loaded.config
    parts: Parts = {
        "running": lambda: node.running(config),
        "directories": lambda: machine.directories(config),
        "ports": lambda: machine.ports(config),
        "runtime": lambda: node.runtime(config),
        "kernel": machine.kernel,
        "identity": lambda: network.identity(config, clock),
        "cloud": lambda: network.cloud(config, clock),
        "database": lambda: databases.database(config, clock),
        "outbox": lambda: databases.outbox(config, clock),
        "damaged": lambda: damaged(config),
        "others": lambda: machine.others(loaded.source),
    }
    return Facts(now=clock.now(), configured=_configured(loaded), **at_once(parts, SECONDS, clock))


def at_once(parts: Parts, seconds: float, clock: Clock) -> dict[str, Any]:
    """What the parts came to by their names, without those that are late. What one of them raises, is raised."""
    done: SimpleQueue[tuple[str, Any, Exception | None]] = SimpleQueue()
    for name, part in parts.items():
        Thread(target=_run, args=(name, part, done), name=f"doctor/{name}", daemon=True).start()
    deadline = clock.monotonic() + seconds
    found: dict[str, Any] = {}
    while len(found) < len(parts):
        try:
            name, result, error = done.get(timeout=max(0.0, deadline - clock.monotonic()))
        except Empty:
            break
        if error is not None:
            raise error
        found[name] = result
    return found


def _run(name: str, part: Callable[[], Any], done: "SimpleQueue[tuple[str, Any, Exception | None]]") -> None:
    try:
        done.put((name, part(), None))
    except Exception as error:  # noqa: BLE001 - raised again by who waits
        done.put((name, None, error))


def _configured(loaded: LoadResult) -> Configured:
    config, cgroups = loaded.config, edged_settings(loaded.config).cgroups
    return Configured(
        source=loaded.source,
        node=config.node_name,
        embedded=config.uses_embedded_runtime,
        cgroup_driver=str(cgroups.driver),
        own_cgroups=cgroups.per_qos,
        warnings=tuple((each.check, each.render(loaded.source)) for each in loaded.warnings),
        unisolated_root=is_unisolated_root(config, os.geteuid()) and not config.modules.edged.allow_unisolated_root,
        without_effect=len(loaded.without_effect),
    )
