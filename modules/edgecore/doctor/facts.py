"""What is found on a node, as plain data: gathered by whoever touches the machine, judged by pure functions.

A part that could not be looked at in time is None in `Facts`. Problems are sentences that end up before a person; none
holds a secret.
"""

import msgspec

from edgehub.certificates.certificate import Certificate


class Directory(msgspec.Struct, frozen=True, kw_only=True):
    """A directory that the node needs; of one that is missing, what its nearest parent says."""

    purpose: str
    path: str
    exists: bool
    writable: bool
    free: int
    """Bytes for this user."""
    inodes: int
    """Free inodes; -1 where the file system has no fixed number."""


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """A port of this machine that the node wants."""

    purpose: str
    address: str
    port: int
    taken: str = ""
    """Why it cannot be had; empty when it is free."""


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """The edgecore of this node."""

    pid: str = ""
    """Of who holds the lock of the root directory; empty when nobody does."""
    health: str = ""
    """What its `/healthz` says; `ok` when it is well."""
    problem: str = ""
    """Why it could not be asked."""
    connected: bool | None = None
    """To the cloud; None when it was not asked, or did not say."""
    waiting: int = 0
    """Messages that it holds for the cloud."""


class Condition(msgspec.Struct, frozen=True):
    """A condition of the container runtime."""

    name: str
    true: bool
    why: str = ""


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The container runtime."""

    endpoint: str
    problem: str = ""
    """Why it does not answer; everything below is unknown then."""
    version: str = ""
    conditions: tuple[Condition, ...] = ()
    cgroup_driver: str = ""
    """`systemd` or `cgroupfs`; empty when it does not say."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The node's own certificate files, and its token."""

    certificate: Certificate | None = None
    certificate_problem: str = ""
    authority_problem: str = ""
    key_problem: str = ""
    key_mode: int = 0o600
    has_token: bool = False
    token_problem: str = ""
    """Why it is none, or that it has expired."""


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """How far one gets on the way to one of the cloud's servers."""

    purpose: str
    host: str
    port: int
    name_problem: str = ""
    addresses: tuple[str, ...] = ()
    tcp_problem: str = ""
    tls_problem: str = ""
    answers: bool = False
    """Whether it answered in HTTP."""
    ahead: float | None = None
    """Seconds that its clock is ahead of this node's; None when it does not say."""


class Cloud(msgspec.Struct, frozen=True, kw_only=True):
    """The cloud."""

    secure: bool
    link: Reach
    certificates: Reach | None = None
    """The server of certificates, with TLS."""
    other_authority: bool = False
    """Whether that server has another CA than the node's CA file."""


class Database(msgspec.Struct, frozen=True, kw_only=True):
    """An SQLite file."""

    path: str
    exists: bool = False
    problem: str = ""
    """Why it cannot be read, or what is damaged."""
    unfinished: bool = False
    """It was too large to be looked at as a whole in time."""
    size: int = 0
    changed: float = 0.0
    """Unix time of the last commit."""
    rows: int = 0


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """The machine."""

    root: bool
    cgroups: tuple[int, ...]
    """Versions that are mounted."""
    conntrack: bool
    swap: bool


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """Of the configuration, what checks must know."""

    source: str
    node: str
    embedded: bool
    cgroup_driver: str = "cgroupfs"
    own_cgroups: bool = False
    warnings: tuple[tuple[str, str], ...] = ()
    """The name of the check, or nothing, and what it says."""
    unisolated_root: bool = False
    """Whether `edgecore run` refuses it to this user."""
    without_effect: int = 0


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    now: float
    """Unix time by this node's clock."""
    configured: Configured
    running: Running | None = None
    directories: tuple[Directory, ...] | None = None
    ports: tuple[Listening, ...] | None = None
    runtime: Runtime | None = None
    kernel: Kernel | None = None
    identity: Identity | None = None
    cloud: Cloud | None = None
    database: Database | None = None
    outbox: Database | None = None
    damaged: tuple[str, ...] | None = None
    """Paths of what could not be read at a start and was set aside."""
    others: tuple[str, ...] | None = None
    """Leftovers of another kubelet or KubeEdge."""
