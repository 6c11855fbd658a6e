"""The OCI runtime as a program, as `tests.modules.runtimes.process.served`."""

from pathlib import Path

from beehive.clock import Clock
from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.oci.driver import OciSettings
from modules.runtimes.oci.network.pod_network import BINARY_DIRECTORIES, PodNetwork
from modules.runtimes.oci.programs import find_programs
from tests.modules.runtimes.process.served import serve


def settings_of(state: Path, clock: Clock) -> OciSettings:
    """The settings of a runtime whose files are all beside its state directory."""
    above = state.parent
    network = PodNetwork(above / "net.d", BINARY_DIRECTORIES, clock)
    return OciSettings(find_programs(), network, above / "certs.d", above / "archives")


def _new_runtime(state: Path, socket: Path, clock: Clock) -> CriServer:
    return CriServer(state, socket, clock, settings_of(state, clock))


if __name__ == "__main__":
    serve(_new_runtime)
