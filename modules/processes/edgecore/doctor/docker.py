"""The requirements of the runtime embedded://docker: a Docker Engine that answers."""

from pathlib import Path

from beehive.clock import Clock
from edged.dockershim.answers import Info
from edged.dockershim.client import DockerClient
from edged.embedded.errors import RequestRefusedError
from modules.processes.edgecore.doctor.facts import DockerNeeds


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
