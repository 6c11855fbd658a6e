"""The answers of Docker Engine, reduced to the fields used here."""

from datetime import datetime

import msgspec

_NANOSECONDS = 1_000_000_000


class _Answer(msgspec.Struct, rename="pascal", frozen=True):
    pass


class Created(_Answer, frozen=True):
    """The answer to the creation of a container or a command."""

    id: str


class State(_Answer, frozen=True):
    """The state of a container."""

    status: str = ""
    running: bool = False
    pid: int = 0
    exit_code: int = 0
    error: str = ""
    started_at: str = ""
    finished_at: str = ""
    out_of_memory: bool = msgspec.field(default=False, name="OOMKilled")


class GraphDriver(_Answer, frozen=True):
    """The directories of a container's files."""

    data: dict[str, str] | None = None


class InspectedContainer(_Answer, frozen=True):
    """`GET /containers/ID/json`."""

    id: str
    state: State
    graph_driver: GraphDriver = GraphDriver()
    hostname_path: str = ""
    resolv_conf_path: str = ""


class ListedContainer(_Answer, frozen=True):
    """An item of `GET /containers/json`."""

    id: str
    image_id: str = msgspec.field(default="", name="ImageID")
    labels: dict[str, str] | None = None
    state: str = ""
    created: int = 0
    """Unix time."""


class ImageSettings(_Answer, frozen=True):
    """The configuration that an image brings for its containers."""

    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    env: tuple[str, ...] | None = None
    user: str = ""
    working_dir: str = ""
    stop_signal: str = ""
    volumes: dict[str, object] | None = None


class Image(_Answer, frozen=True):
    """`GET /images/NAME/json`; an item of `GET /images/json` has no `config`."""

    id: str
    repo_tags: tuple[str, ...] | None = None
    repo_digests: tuple[str, ...] | None = None
    size: int = 0
    config: ImageSettings | None = None


class InspectedCommand(_Answer, frozen=True):
    """`GET /exec/ID/json`."""

    running: bool = False
    exit_code: int | None = None
    pid: int = 0


class Info(_Answer, frozen=True):
    """`GET /info`."""

    server_version: str = ""
    cgroup_driver: str = "cgroupfs"
    docker_root_dir: str = "/var/lib/docker"


class Actor(_Answer, frozen=True):
    """The object of an event."""

    id: str = msgspec.field(default="", name="ID")


class DockerEvent(_Answer, frozen=True):
    """An item of `GET /events`."""

    action: str = ""
    actor: Actor = Actor()


class ProgressDetail(msgspec.Struct, frozen=True):
    """The bytes of a layer in a progress line; 0 where Docker does not say them."""

    current: int = 0
    total: int = 0


class Progress(msgspec.Struct, frozen=True):
    """A progress line of a pull or load of an image."""

    error: str = ""
    status: str = ""
    id: str = ""
    """The layer, or the tag."""
    detail: ProgressDetail = msgspec.field(default=ProgressDetail(), name="progressDetail")


def nanoseconds(time: str) -> int:
    """Return a time of Docker's in nanoseconds since the epoch; 0 for an event that has not happened, and for a text
    that is no time.
    """
    whole, _, fraction = time.removesuffix("Z").partition(".")
    try:
        seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
        return max(0, seconds * _NANOSECONDS + int(f"{fraction:0<9}"[:9] or "0"))
    except (ValueError, OverflowError):
        return 0
