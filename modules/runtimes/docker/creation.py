"""Creation and removal of containers in Docker."""

from typing import Final

from beehive.clock import Clock
from modules.runtimes.docker.answers import Created
from modules.runtimes.docker.client import DockerClient
from modules.runtimes.docker.errors import ConflictError
from modules.runtimes.docker.specs import Body, Here
from modules.runtimes.engine.errors import NoSuchObjectError

_SUFFIX_BITS: Final = 32


class ContainerMaker:
    """The maker of containers.

    Args:
        docker: Docker's API.
        here: this edgecore.
        clock: makes unique suffixes for names that are in use.
    """

    def __init__(self, docker: DockerClient, here: Here, clock: Clock) -> None:
        self.docker = docker
        self.here = here
        self.clock = clock

    def create(self, name: str, body: Body, attempt: str) -> str:
        """Create a container and return its id. If the name is in use, it gets a suffix. Raises RequestRefusedError."""
        try:
            return self._create(name, body, attempt)
        except ConflictError:
            return self._create(f"{name}_{self.clock.random.getrandbits(_SUFFIX_BITS):08x}", body, attempt)

    def _create(self, name: str, body: Body, attempt: str) -> str:
        return self.docker.post("/containers/create", Created, attempt, body, {"name": name}).id


def remove_container(docker: DockerClient, container_id: str) -> None:
    """Kill and remove a container with its anonymous volumes; a missing one is no error. Raises RequestRefusedError."""
    try:
        query = {"force": "1", "v": "1"}
        docker.call("DELETE", f"/containers/{container_id}", f"remove container {container_id}", query)
    except NoSuchObjectError:
        return
