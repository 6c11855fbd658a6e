"""The requirements of the runtime embedded://docker: a Docker Engine that answers, and CNI plug-ins."""

from pathlib import Path

from beehive.clock import Clock
from edged.dockershim.client import DockerClient
from edged.embedded.errors import RequestRefusedError
from modules.processes.edgecore.doctor.facts import DockerNeeds
from modules.processes.edgecore.doctor.oci import PLUGINS


def needs(socket: Path, clock: Clock, plugins: tuple[Path, ...] = PLUGINS) -> DockerNeeds:
    """Return the facts about its requirements on this machine.

    Args:
        socket: of Docker Engine.
        clock: for its time limits.
        plugins: directories of CNI plug-ins.
    """
    client = DockerClient(socket, clock)
    missing = () if any((directory / "bridge").exists() for directory in plugins) else ("CNI plug-ins",)
    try:
        client.negotiate()
    except RequestRefusedError as error:
        return DockerNeeds(missing=missing, problem=error.reason)
    return DockerNeeds(missing=missing, api=".".join(map(str, client.version)))
