"""The streams of containers: exec, attach and port-forward, over SPDY/3.1 and WebSocket.

`StreamingServer` gives addresses for CRI's answers and serves the connections to them; the runtime is its
`StreamingBackend`.
"""

from modules.runtimes.oci.streaming.backend import StreamingBackend, StreamProcess
from modules.runtimes.oci.streaming.connect import connect_in_namespace
from modules.runtimes.oci.streaming.server import StreamingServer

__all__ = ["StreamProcess", "StreamingBackend", "StreamingServer", "connect_in_namespace"]
