"""Errors of streams.

BeehiveError
├── StreamServerError           the server for a cluster's API server cannot be made
└── TunnelError                 a stream cannot be opened
    ├── NoTunnelError               the node has no tunnel here
    └── TooManyStreamsError         a limit is reached
"""

from beehive.errors import BeehiveError


class StreamServerError(BeehiveError):
    """The stream server's certificates cannot be used; the process does not start."""


class TunnelError(BeehiveError):
    """A stream to a node cannot be opened."""


class NoTunnelError(TunnelError):
    """The node has no tunnel to this cloudcore."""


class TooManyStreamsError(TunnelError):
    """The node, or this cloudcore, has as many streams as it may have."""
