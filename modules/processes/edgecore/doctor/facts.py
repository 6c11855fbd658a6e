"""Facts of a node as plain data, gathered by functions that touch the machine and judged by pure ones.

Parts of `Facts` that could not be gathered in time are None. Problems are sentences for the user and hold no secret.
"""

import msgspec

from edgehub.certificates.certificate import Certificate
from modules.processes.edgecore.runtime_kinds import LeftKind


class Directory(msgspec.Struct, frozen=True, kw_only=True):
    """A directory that the node needs; for a missing one, the facts of its nearest existing parent."""

    purpose: str
    path: str
    exists: bool
    writable: bool
    read_only: str = ""
    """Mount point of its file system, if that is mounted read-only."""
    by_root: bool = False
    """Whether root asks."""
    free: int
    """Bytes that this user may still write."""
    inodes: int
    """Free inodes; -1 if the file system has no fixed number."""


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """A port of this machine that the node needs."""

    purpose: str
    address: str
    port: int
    taken: str = ""
    """The process that has it; empty if it is free."""


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """The edgecore process of this node."""

    pid: str = ""
    """Process that holds the lock of the root directory; empty if it is not locked."""
    health: str = ""
    """Answer of its `/healthz`; `ok` if it is healthy."""
    problem: str = ""
    """Why it does not answer."""
    connected: bool | None = None
    """Whether it is connected to the cloud; None if that is unknown."""
    link_problem: str = ""
    """Why its last link to the cloud ended or did not come up."""
    replaced_at: float | None = None
    """When the cloud has last ended a link because another connection with the node's name took its place."""
    tunnel: bool | None = None
    """Whether it has a stream tunnel to the cloud; None if edgestream is not enabled, or that is unknown."""
    waiting: int = 0
    """Messages that it holds for the cloud."""
    brokers: dict[str, bool] = {}
    """Whether each MQTT broker, `external` or `internal`, is connected."""
    mappers: dict[str, bool] = {}
    """Whether somebody listens on the socket of each registered mapper."""
    has_unit: bool = False
    """Whether systemd has a unit `edgecore.service`."""


class Condition(msgspec.Struct, frozen=True):
    """A condition of the container runtime."""

    name: str
    true: bool
    why: str = ""


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The container runtime."""

    endpoint: str
    problem: str = ""
    """Why it does not answer; then everything below is unknown."""
    version: str = ""
    conditions: tuple[Condition, ...] = ()
    cgroup_driver: str = ""
    """`systemd` or `cgroupfs`; empty if the runtime does not tell."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The node's own certificate files, and its token."""

    certificate: Certificate | None = None
    certificate_problem: str = ""
    authority_problem: str = ""
    key_problem: str = ""
    key_mode: int = 0o600
    has_token: bool = False
    token_problem: str = ""
    """Why the token is invalid or expired."""


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """Reach of a connection to one of the cloud's servers."""

    purpose: str
    host: str
    port: int
    name_problem: str = ""
    addresses: tuple[str, ...] = ()
    tcp_problem: str = ""
    tls_problem: str = ""
    answers: bool = False
    """Whether the server answered in HTTP."""
    ahead: float | None = None
    """Seconds that its clock is ahead of this node's; None if unknown."""


class CloudReach(msgspec.Struct, frozen=True, kw_only=True):
    """The cloud's servers."""

    secure: bool
    link: Reach
    backups: tuple[Reach, ...] = ()
    """Results for the other servers of the link, which are dialled in turn."""
    certificates: Reach | None = None
    """The server of certificates; None without TLS."""
    other_authority: bool = False
    """Whether that server's CA differs from the node's CA file."""


class DatabaseFile(msgspec.Struct, frozen=True, kw_only=True):
    """An SQLite file."""

    path: str
    exists: bool = False
    problem: str = ""
    """Why it cannot be read, or how it is damaged."""
    unfinished: bool = False
    """Whether the check of all pages took too long."""
    size: int = 0
    changed: float = 0.0
    """Unix time of the last commit."""
    rows: int = 0


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """Features of the kernel."""

    root: bool
    cgroups: tuple[int, ...]
    """Mounted versions."""
    conntrack: bool
    swap: bool


class OciNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """The machine's facts about the requirements of the OCI runtime inside edgecore."""

    missing: tuple[str, ...] = ()
    """Programs that are not installed."""
    overlay: bool = True
    """Whether the kernel has overlayfs, or can load it."""
    old: str = ""
    """Why the OCI runtime's release is not good enough; empty if it is."""


class Shortage(msgspec.Struct, frozen=True):
    """A requirement that is not fulfilled, by the name of its check."""

    name: str
    reason: str
    hint: str
    """The command that fulfils it."""


class RootlessNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """The machine's facts about the requirements of the OCI runtime for an ordinary user."""

    shortages: tuple[Shortage, ...] = ()
    user: str = ""
    ends_at_log_out: bool = False
    """Whether systemd ends the user's processes, containers too, when the user logs out."""
    unlimited: Shortage | None = None
    """Limits of pods that are not enforced, by the names of their control groups' controllers."""


class Isolation(msgspec.Struct, frozen=True):
    """Lacks of this machine for isolated containers; empty texts if nothing."""

    missing: str = ""
    remedy: str = ""


class DockerNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """The machine's facts about the requirements of embedded://docker."""

    problem: str = ""
    """Why Docker Engine does not answer; empty if it does."""
    api: str = ""
    """Version of its API."""
    cgroup_driver: str = ""
    """Docker's; empty if it does not tell."""


class MeshNeeds(msgspec.Struct, frozen=True):
    """The facts that edgemesh depends on."""

    missing: tuple[str, ...] = ()
    """Packages of programs that are not installed."""
    may_change_rules: bool = True
    """As root, or in the network of an ordinary user's pods."""
    may_use_proxy: bool = True
    """Whether pods reach a proxy of edgecore."""
    has_names: bool = True
    """Whether the name server is configured."""
    has_store: bool = True
    """Whether metamanager, the source of Services, is on."""
    beside: str = ""
    """The interface of KubeEdge's edgemesh-agent, if it runs here."""


class PodNetworkNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """The machine's facts about the network of pods of a runtime inside edgecore."""

    source: str = ""
    """File of the CNI configuration; empty for edgecore's own network."""
    problem: str = ""
    """Why the configuration cannot be used."""
    missing: tuple[str, ...] = ()
    """Programs that are not installed."""
    bridge: str = ""
    """The bridge of pods, if it exists and the machine's rules decide about its packets."""
    switched_off: tuple[str, ...] = ()
    """Switches of the kernel that prevent forwarding."""
    dropping: tuple[str, ...] = ()
    """Programs of the firewalls that drop forwarded packets of the bridge: iptables, ip6tables."""
    name_servers: tuple[str, ...] = ()
    """The machine's, if pods reach none."""


class MapperSocket(msgspec.Struct, frozen=True, kw_only=True):
    """The socket where mappers of devices register."""

    path: str
    problem: str = ""
    """Why this user cannot connect; empty if they can."""
    denied: bool = False
    """Whether that is for a lack of permission."""
    group: str = ""
    """The group that may connect."""


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the configuration that checks need."""

    source: str
    options: str = ""
    """Options that lead any command to this node."""
    node: str
    runs_container_runtime: bool
    """Whether the container runtime is inside edgecore."""
    isolated: bool = True
    """Whether containers are isolated."""
    rootless: bool = False
    """Whether an ordinary user isolates them."""
    cgroup_driver: str = "cgroupfs"
    own_cgroups: bool = False
    warnings: tuple[tuple[str, str], ...] = ()
    """Name of the check, or empty, and the text."""
    unisolated_root: bool = False
    """Whether `edgecore run` refuses to run for this user."""
    without_effect: int = 0


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All facts of a node."""

    now: float
    """Unix time of this node's clock."""
    configured: Configured
    running: Running | None = None
    directories: tuple[Directory, ...] | None = None
    ports: tuple[Listening, ...] | None = None
    runtime: Runtime | None = None
    kernel: Kernel | None = None
    oci: OciNeeds | None = None
    isolation: Isolation | None = None
    """None also where there is a configuration file, or containers are isolated."""
    rootless: RootlessNeeds | None = None
    """None also where another runtime is configured."""
    docker: DockerNeeds | None = None
    """The same."""
    pod_network: PodNetworkNeeds | None = None
    """None also where the runtime is not inside edgecore, or isolates nothing."""
    mesh: MeshNeeds | None = None
    """None also where edgemesh is off."""
    mappers: MapperSocket | None = None
    """None also where mappers cannot register, by the configuration."""
    unserved: dict[str, list[str]] | None = None
    """By protocol, the devices that no mapper has, and that no application has ever reported of; None as `mappers`."""
    broker: str | None = None
    """Path of mosquitto, empty if it is not installed; None also where edgecore runs no broker."""
    identity: Identity | None = None
    cloud: CloudReach | None = None
    database: DatabaseFile | None = None
    outbox: DatabaseFile | None = None
    damaged: tuple[str, ...] | None = None
    """Paths of files that could not be read at a start and were set aside."""
    other_kinds: tuple[LeftKind, ...] | None = None
    """Container runtimes inside edgecore that are not configured and have pods."""
    lost: int | None = None
    """Processes of pods whose files somebody has removed under them."""
    others: tuple[str, ...] | None = None
    """Traces of another kubelet or KubeEdge."""
