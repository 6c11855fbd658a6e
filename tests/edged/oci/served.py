"""The OCI runtime as a program, as `tests.edged.embedded.served`."""

from pathlib import Path

from beehive.clock import Clock
from edged.oci.engine import OciSettings
from edged.oci.network import BINARY_DIRECTORIES, PodNetwork
from edged.oci.programs import find_programs
from edged.oci.runtime import OciRuntime
from tests.edged.embedded.served import serve


def settings_of(state: Path, clock: Clock) -> OciSettings:
    """The settings of a runtime whose files are all beside its state directory."""
    above = state.parent
    network = PodNetwork(above / "net.d", BINARY_DIRECTORIES, clock)
    return OciSettings(find_programs(), network, above / "certs.d", above / "archives")


def _new_runtime(state: Path, socket: Path, clock: Clock) -> OciRuntime:
    return OciRuntime(state, socket, clock, settings_of(state, clock))


if __name__ == "__main__":
    serve(_new_runtime)
