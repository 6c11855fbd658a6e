"""The embedded runtime as edgecore starts it."""

from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.process.engine import Engine
from modules.runtimes.process.service import ProcessMethods


class EmbeddedRuntime(CriServer):
    """A CRI v1 server whose containers are plain processes of this machine, without isolation.

    runtime = EmbeddedRuntime(Path("/var/lib/edged/embedded"), Path("/run/embedded.sock"), clock)
    runtime.start()
    client = CriClient(runtime.endpoint)
    """

    def _open(self) -> tuple[Engine, ProcessMethods]:
        engine = Engine(self._root, self._clock)
        return engine, ProcessMethods(engine)
