"""The broker that eventbus runs itself: its settings, and the text of mosquitto's files. Pure.

mosquitto listens on a Unix socket, for edgecore alone, and on the address for devices and applications. Clients on that
address may not publish to the topics that only the cloud and edgecore may use.
"""

from pathlib import Path
from typing import Final

import msgspec

from modules.apimachinery.device_topics import OPEN_TO_APPLICATIONS
from modules.edge.eventbus.routing import MAX_PAYLOAD

INSTALL: Final = "apt-get install mosquitto"
"""Installs it on Debian and Ubuntu; its own service, on another port, is not needed."""

CONFIGURATION: Final = "mosquitto.conf"
ACL: Final = "acl"
PASSWORDS: Final = "passwords"
DATA: Final = "data"
"""Directory of the files that mosquitto writes; its user owns only this one."""
SOCKET: Final = f"{DATA}/eventbus.sock"

LEAST_QUEUE: Final = 10_000
"""Messages that may wait for one client. Messages that come during a restart of eventbus wait there too."""

_MEMORY: Final = 64 * 1024 * 1024
_CLIENT_BYTES: Final = 2 * 1024 * 1024
_AUTOSAVE: Final = 30
"""Seconds between two writes of the stored messages: mosquitto writes them all, whether they have changed or not."""


class InternalBroker(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the broker."""

    directory: Path
    """Directory of its files; nothing else uses it."""
    program: Path
    """mosquitto."""
    host: str
    """Address for devices and applications."""
    port: int
    client_id: str
    """Name of edgecore's session. A secret: a client that knew it could take the session over."""
    user: str = ""
    """With a password: whom devices and applications log in as; empty for no login."""
    password: str = ""
    queue: int = LEAST_QUEUE
    """Messages that may wait for a client that is slow or away."""
    qos: int = 1
    retain: bool = False
    """Whether there are retained messages, edgecore's and clients'; mosquitto bounds their number by its memory
    only.
    """

    @property
    def socket(self) -> Path:
        """Unix socket for edgecore."""
        return self.directory / SOCKET


def configuration(broker: InternalBroker, *, is_root: bool = False) -> str:
    """Return mosquitto's configuration; paths are relative to its directory.

    Args:
        broker: its settings.
        is_root: whether mosquitto stays user 0, as in the namespaces of an ordinary user's node, where 0 is that user:
            it would become the user `mosquitto` by itself, who may not read these files.
    """
    login = ["allow_anonymous false", f"password_file {PASSWORDS}"] if broker.user else ["allow_anonymous true"]
    lines = [
        *(["user root"] if is_root else []),
        "per_listener_settings true",
        f"listener 0 {SOCKET}",
        "allow_anonymous true",
        f"listener {broker.port} {broker.host}",
        *login,
        f"acl_file {ACL}",
        "max_connections 1024",
        "persistence true",
        f"persistence_location {DATA}/",
        f"autosave_interval {_AUTOSAVE}",
        f"retain_available {str(broker.retain).lower()}",
        "persistent_client_expiration 1m",
        f"max_queued_messages {max(LEAST_QUEUE, broker.queue)}",
        f"max_queued_bytes {_CLIENT_BYTES}",
        "max_inflight_messages 200",
        f"max_packet_size {MAX_PAYLOAD + 65_536}",
        f"memory_limit {_MEMORY}",
        "set_tcp_nodelay true",
        "sys_interval 0",
        "connection_messages false",
        "log_dest stderr",
        "log_timestamp false",
        "log_type error",
        "log_type warning",
    ]
    return "".join(f"{line}\n" for line in lines)


def acl(user: str) -> str:
    """Return the rights of clients on the address: they may read all topics, and write to all but topics of the cloud
    and edgecore.

    Args:
        user: the name that they log in with; empty for clients without one. mosquitto tells the two apart.
    """
    lines = [f"user {user}"] if user else []
    lines += ["topic readwrite #", "topic readwrite $ke/#", "topic read $hw/#"]
    lines += [f"topic write {topic}" for topic in OPEN_TO_APPLICATIONS]
    return "".join(f"{line}\n" for line in lines)
