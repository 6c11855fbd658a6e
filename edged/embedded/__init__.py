"""The embedded container runtime: CRI v1 for machines without one, its containers plain processes nothing isolates.

edgecore starts it when the configured endpoint is the embedded one, as KubeEdge's edged started dockershim, and talks
to it over gRPC like to any other. Requests go `server` -> `service` -> `sandboxes`, `containers`, `execution`,
`images`; below them `shepherds` and `watcher` speak with the processes in `shepherd/` that keep the containers. See
docs/embedded-runtime.md.
"""

from edged.embedded.engine import purge
from edged.embedded.errors import EmbeddedRuntimeError, StateDirectoryError
from edged.embedded.runtime import EmbeddedRuntime

__all__ = ["EmbeddedRuntime", "EmbeddedRuntimeError", "StateDirectoryError", "purge"]
