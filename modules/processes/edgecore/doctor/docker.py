"""The requirements of the runtime embedded://docker: a Docker Engine that answers."""

from pathlib import Path

from beehive.clock import Clock
from modules.processes.edgecore.doctor.facts import DockerNeeds
from modules.runtimes.docker.answers import Info
from modules.runtimes.docker.client import DockerClient
from modules.runtimes.engine.errors import RequestRefusedError


def needs(socket: Path, clock: Clock) -> DockerNeeds:
    """Return the facts about its requirements on this machine.

    Args:
        socket: of Docker Engine.
        clock: for its time limits.
    """
    client = DockerClient(socket, clock)
    try:
        client.negotiate()
        driver = client.get("/info", Info, "ask Docker what it is").cgroup_driver
    except RequestRefusedError as error:
        return DockerNeeds(problem=error.reason)
    return DockerNeeds(api=".".join(map(str, client.version)), cgroup_driver=driver)
