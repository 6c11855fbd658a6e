"""Settings of devices and of MQTT (`modules.deviceTwin`, `modules.eventBus`)."""

from pathlib import Path
from typing import Annotated, Final

from msgspec import field

from modules.processes.edgecore.config.names import MQTT_SERVER
from modules.processes.edgecore.config.section import Section
from modules.processes.edgecore.config.value_kinds import AbsolutePath, Secret, SecretText, Switch, Text, Whole

DMI_SOCKET: Final = "dmi.sock"
"""Name of the socket of mappers, whatever a file is called in `dmiSockPath`."""

GROUP: Final = Text("the name or number of a group, or empty", r"|[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}", most=32)


class DeviceTwins(Section, frozen=True, kw_only=True):
    """The devices of the node: their properties, desired and reported, and their states."""

    dmi_sock_group: Annotated[str, GROUP] = ""
    """The group whose members may connect to the socket of mappers (mode 0660); empty for edgecore's own. Ours."""

    dmi_sock_path: Annotated[Path, AbsolutePath()] = Path("/etc/kubeedge")
    """Directory of the socket `dmi.sock`, on which mappers of devices register; of a path that ends in `.sock` its
    directory, as in KubeEdge."""

    enable: Annotated[bool, Switch()] = True
    """Whether the node keeps devices."""

    enable_mappers: Annotated[bool, Switch()] = True
    """Whether mappers may register on the socket. Ours."""

    like_kube_edge: Annotated[bool, Switch()] = False
    """Whether values, times and repetitions are exactly KubeEdge's: at most 512 plain characters that no model checks,
    each equal report sent again, no desired value for applications, no last time online. Ours."""

    mapper_report_burst: Annotated[int, Whole("reports", 1, 1_000_000)] = 500
    """Reports of one mapper that are accepted in a burst. Ours: KubeEdge accepts 100 of all mappers together."""

    mapper_report_qps: Annotated[int, Whole("reports a second", 1, 1_000_000)] = field(
        default=200, name="mapperReportQPS"
    )
    """Reports of one mapper that are accepted a second; others are refused with RESOURCE_EXHAUSTED. Ours: KubeEdge
    accepts one of all mappers together."""

    @property
    def dmi_socket(self) -> Path:
        """The path of the socket."""
        path = self.dmi_sock_path
        return (path.parent if path.suffix == ".sock" else path) / DMI_SOCKET


class EventBusTls(Section, frozen=True, kw_only=True):
    """TLS of the connection to the MQTT broker."""

    enable: Annotated[bool, Switch()] = False
    """Whether the connection has TLS with both sides' certificates checked; then mqttServerExternal begins with
    `ssl://`. KubeEdge accepts `ssl://` without this, and verifies nothing."""

    tls_mqtt_ca_file: Annotated[Path, AbsolutePath()] = field(
        default=Path("/etc/kubeedge/ca/rootCA.crt"), name="tlsMqttCAFile"
    )
    """The CA that the broker's certificate is checked against (PEM)."""

    tls_mqtt_cert_file: Annotated[Path, AbsolutePath()] = Path("/etc/kubeedge/certs/server.crt")
    """The node's certificate for the broker (PEM)."""

    tls_mqtt_private_key_file: Annotated[Path, AbsolutePath()] = Path("/etc/kubeedge/certs/server.key")
    """The key of that certificate (PEM)."""


class EventBusOptions(Section, frozen=True, kw_only=True):
    """MQTT: messages of applications at the node, and to them."""

    enable: Annotated[bool, Switch()] = False
    """Whether the node connects to an MQTT broker. KubeEdge's default is true; its node dials for ever without one."""

    event_bus_tls: EventBusTls = field(default=EventBusTls(), name="eventBusTLS")
    """TLS of the connection."""

    mqtt_mode: Annotated[int, Whole("", 0, 2)] = 2
    """2: the broker of mqttServerExternal. 0: a mosquitto on mqttServerInternal, which edgecore starts and watches; it
    must be installed. 1: both; messages for applications are published at both."""

    mqtt_password: Annotated[SecretText, Secret()] = SecretText()
    """Password for the broker; for the internal one its clients'. A secret: never logged."""

    mqtt_qos: Annotated[int, Whole("", 0, 2)] = field(default=1, name="mqttQOS")
    """Quality of service at the internal broker; at an external one it is 1, as in KubeEdge. With 0, KubeEdge's
    default, a client that is away misses messages."""

    mqtt_retain: Annotated[bool, Switch()] = False
    """Whether the internal broker keeps the newest message of each topic for clients that subscribe later."""

    mqtt_server_external: Annotated[str, MQTT_SERVER] = "tcp://127.0.0.1:1883"
    """The external broker. Nodes must not share one: KubeEdge's topics of devices do not name the node."""

    mqtt_server_internal: Annotated[str, MQTT_SERVER] = "tcp://127.0.0.1:1884"
    """Where the internal broker listens. Beyond this machine it needs mqttUsername."""

    mqtt_session_queue_size: Annotated[int, Whole("messages", 1, 1_000_000)] = 10_000
    """Messages that wait at the internal broker for a slow or absent client; less than 10,000 counts as 10,000, because
    messages wait there while eventbus restarts. KubeEdge's default is 100."""

    mqtt_sub_client_id: Annotated[str, Text("text", most=128)] = field(default="", name="mqttSubClientID")
    """Name under which the broker keeps messages while edgecore restarts; empty for `edgecore-NODE`. KubeEdge's second
    name, mqttPubClientID, is not needed."""

    mqtt_username: Annotated[str, Text("text", most=256)] = ""
    """User for the broker; empty without one. At the internal one all clients log in with it."""
