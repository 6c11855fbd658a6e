"""The embedded runtime as edgecore starts it."""

from edged.embedded.cri_server import CriServer
from edged.embedded.engine import Engine
from edged.embedded.service import ProcessMethods


class EmbeddedRuntime(CriServer):
    """A CRI v1 server whose containers are plain processes of this machine, without isolation.

    runtime = EmbeddedRuntime(Path("/var/lib/edged/embedded"), Path("/run/embedded.sock"), clock)
    runtime.start()
    client = CriClient(runtime.endpoint)
    """

    def _open(self) -> tuple[Engine, ProcessMethods]:
        engine = Engine(self._root, self._clock)
        return engine, ProcessMethods(engine)
