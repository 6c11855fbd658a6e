"""edgehub: the link to the cloud.

`install` adds it to a hive. Start reading at `module`. `link` is the contract of a connection, `websocket` implements
it over TCP. `outgoing`, `framing` and `upgrade` are pure. The package does not interpret the contents of messages, and
does not know the node's store.
"""

from edgehub.counters import LinkCounters
from edgehub.install import install
from edgehub.module import EdgeHub
from edgehub.outgoing import Outgoing
from edgehub.settings import EdgeHubSettings
from edgehub.websocket import WebsocketLink

__all__ = ["EdgeHub", "EdgeHubSettings", "LinkCounters", "Outgoing", "WebsocketLink", "install"]
