"""Settings of HTTP between the cloud's rules and applications (`modules.serviceBus`)."""

from __future__ import annotations

from typing import Annotated

from modules.processes.edgecore.config.names import IP_ADDRESS, OPTIONAL_PATH
from modules.processes.edgecore.config.section import Section
from modules.processes.edgecore.config.value_kinds import Switch, Whole


class ServiceBusOptions(Section, frozen=True, kw_only=True):
    """HTTP between the cloud's rules and applications of the node."""

    enable: Annotated[bool, Switch()] = False
    """Whether the cloud's router may call HTTP servers of this machine's loopback interface, on any port that a rule
    names, and applications may ask the cloud for the URLs that it allows."""

    port: Annotated[int, Whole("", 1, 65535)] = 9060
    """Where applications ask the cloud. It listens from the first URL that the cloud allows."""

    server: Annotated[str, IP_ADDRESS] = "127.0.0.1"
    """Address there. Whoever reaches it may ask for each allowed URL: there are no credentials."""

    timeout: Annotated[int, Whole("seconds", 1, 3600)] = 60
    """Longest wait for the cloud's answer to an application."""

    tls_cert_file: Annotated[str, OPTIONAL_PATH] = ""
    """Certificate for HTTPS there (PEM); empty for plain HTTP."""

    tls_private_key_file: Annotated[str, OPTIONAL_PATH] = ""
    """The key of that certificate (PEM)."""
