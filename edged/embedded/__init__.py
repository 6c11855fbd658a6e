"""The embedded container runtime: a CRI v1 server whose containers are plain, unisolated processes of the machine.

edgecore starts it when the configured endpoint is the embedded one, as KubeEdge's edged started dockershim, and talks
to it over gRPC like to any other runtime. A request passes `server`, `service` and one of `sandboxes`, `containers`,
`execution` and `images`. Below these, `shim_manager` and `shim_watcher` talk to the processes of `shim/`, the parents
of the containers. See docs/embedded-runtime.md.
"""

from edged.embedded.engine import purge
from edged.embedded.errors import EmbeddedRuntimeError, StateDirectoryError
from edged.embedded.runtime import EmbeddedRuntime

__all__ = ["EmbeddedRuntime", "EmbeddedRuntimeError", "StateDirectoryError", "purge"]
