"""edgehub: the link to the cloud.

`install` adds it to a hive. `module` is where to start reading; `link` is the contract of a connection, `websocket` the
real one, `testing` one in memory; `dispatch`, `outgoing`, `framing`, `upgrade` and `writer` are decisions
without effects. It knows nothing of what messages mean, of certificates' making, or of the node's store.
"""

from edgehub.counters import LinkCounters
from edgehub.install import install
from edgehub.module import EdgeHub
from edgehub.outgoing import Outgoing
from edgehub.settings import EdgeHubSettings
from edgehub.websocket import WebsocketLink

__all__ = ["EdgeHub", "EdgeHubSettings", "LinkCounters", "Outgoing", "WebsocketLink", "install"]
