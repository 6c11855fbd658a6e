"""Socket activation for gRPC servers: the server, and its library, start with the first client that sends something.

A Python gRPC server looks five times a second whether there is work, and its library takes 21 MB. Most nodes never get
a call on the sockets of their process runtime, mappers and device plug-ins. Until one comes, only the listening
sockets exist, which one thread watches for all of them without ever waking. The idea is systemd's (socket activation,
systemd-socket-proxyd), here within one process.

    client ── public socket ── Relay ── PrivateSocket ── gRPC server
"""

from beehive.sockets.activation.private_socket import PrivateSocket
from beehive.sockets.activation.server import ActivatedServer, StartedServer

__all__ = ["ActivatedServer", "PrivateSocket", "StartedServer"]
