"""Reads facts of the machine: directories, ports, kernel, the node's process, other agents.

A port is looked up in the kernel's tables instead of being bound, and the node's lock in `/proc/locks` instead of being
taken: an edgecore that starts at the same moment must not fail because of this.
"""

import grp
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive.files.advice import advice
from beehive.http.authority import server_of
from beehive.sockets.unix_sockets import connect_unix
from modules.edge.eventbus.mosquitto_files import SEARCHED, find_mosquitto
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.doctor.facts import Directory, Kernel, Listening, MapperSocket
from modules.processes.edgecore.location import KUBEEDGE_FILE
from modules.processes.edgecore.ownership import LOCK_FILE

PROC: Final = Path("/proc")
KUBELET_PORTS: Final = (10250, 10350)
"""Ports of a kubelet, and of KubeEdge's edgecore."""

UNIT_DIRECTORIES: Final = tuple(
    Path(each, "systemd/system") for each in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")
)

_LISTEN: Final = "0A"
_SOCKET_SECONDS: Final = 1.0
_LONGEST: Final = 4 * 1024 * 1024
"""Bytes that are read of a file in /proc."""

_FOREIGN_FILES: Final = (Path("/etc/kubernetes/kubelet.conf"), Path("/var/lib/kubelet/config.yaml"))


def directories(config: EdgeCoreConfig) -> tuple[Directory, ...]:
    """Return the directories that the node writes to."""
    edged = config.modules.edged
    wanted = {
        "rootDirectory": edged.root_directory,
        "podLogsDir": edged.tailored_kubelet_config.pod_logs_dir,
        "of the database": config.outbox_path.parent,
    }
    return tuple(directory(purpose, path) for purpose, path in wanted.items())


def mapper_socket(path: Path) -> MapperSocket:
    """Return the socket of mappers; it is connected to, and nothing is sent."""
    try:
        group = _group_name(path.stat().st_gid)
        connect_unix(path, _SOCKET_SECONDS).close()
    except OSError as error:
        return MapperSocket(path=str(path), problem=advice(error), denied=isinstance(error, PermissionError))
    return MapperSocket(path=str(path), group=group)


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def directory(purpose: str, path: Path) -> Directory:
    """Return one directory."""
    there = next((each for each in (path, *path.parents) if _is_directory(each)), Path("/"))
    room = os.statvfs(there)
    return Directory(
        purpose=purpose,
        path=str(path),
        exists=_is_directory(path),
        writable=os.access(there, os.W_OK | os.X_OK) and (there == path or not is_there(path)),
        read_only=_mount_point(there) if room.f_flag & os.ST_RDONLY else "",
        by_root=os.geteuid() == 0,
        free=room.f_bavail * room.f_frsize,
        inodes=room.f_favail if room.f_files else -1,
    )


def is_there(path: Path) -> bool:
    """Return whether a file exists, as far as this user can see: root's directories may be closed to others."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def _is_directory(path: Path) -> bool:
    return is_there(path) and path.is_dir()


def _mount_point(path: Path) -> str:
    return str(next((each for each in (path, *path.parents) if each.is_mount()), path))


def has_unit(directories: Iterable[Path] = UNIT_DIRECTORIES) -> bool:
    """Return whether systemd has a unit of edgecore."""
    return any(is_there(directory / "edgecore.service") for directory in directories)


def ports(config: EdgeCoreConfig) -> tuple[Listening, ...]:
    """Return the ports that the node listens on."""
    return tuple(
        Listening(purpose=purpose, address=address, port=port, taken=_listener(address, port, PROC))
        for purpose, address, port in _wanted_ports(config)
    )


def _wanted_ports(config: EdgeCoreConfig) -> Iterator[tuple[str, str, int]]:
    kubelet = config.modules.edged.tailored_kubelet_config
    if kubelet.read_only_port:
        yield "readOnlyPort", kubelet.address, kubelet.read_only_port
    if config.runs_mqtt_broker:
        host, port = server_of(config.modules.event_bus.mqtt_server_internal)
        yield "mqttServerInternal", "127.0.0.1" if host == "localhost" else host, port


def broker(searched: str = SEARCHED) -> str:
    """Return the path of the MQTT broker that edgecore runs; empty if it is not installed."""
    return str(find_mosquitto(searched) or "")


def lock_holder(root: Path, proc: Path = PROC) -> str:
    """Return the process id of the edgecore that has locked a root directory; empty if it is not locked."""
    try:
        file = root / LOCK_FILE
        inode = file.stat().st_ino
        pid = file.read_bytes()[:20].decode("ascii", "replace").strip()
    except OSError:
        return ""
    for line in _text(proc / "locks").splitlines():
        fields = line.split()
        if "FLOCK" in fields and "->" not in fields and pid in fields and f":{inode} " in line:
            return pid
    return ""


def kernel(proc: Path = PROC) -> Kernel:
    """Return the kernel's features for pods."""
    kinds = {line.partition(" - ")[2].split(" ")[0] for line in _text(proc / "self" / "mountinfo").splitlines()}
    return Kernel(
        root=os.geteuid() == 0,
        cgroups=tuple(number for number, kind in ((1, "cgroup"), (2, "cgroup2")) if kind in kinds),
        conntrack=(proc / "sys" / "net" / "netfilter" / "nf_conntrack_max").exists(),
        swap=len(_text(proc / "swaps").splitlines()) > 1,
    )


def other_agents(source: str, proc: Path = PROC) -> tuple[str, ...]:
    """Return traces of another agent, as sentences."""
    return tuple(_others(source, proc))


def _others(source: str, proc: Path) -> Iterator[str]:
    for pid, name in _processes(proc):
        if name in ("kubelet", "edgecore"):
            yield f"process {pid} is a {'kubelet' if name == 'kubelet' else 'KubeEdge edgecore'}"
    for port in KUBELET_PORTS:
        if taker := _listener("", port, proc):
            yield f"port {port} of a kubelet is taken: {taker}"
    for file in _FOREIGN_FILES:
        if is_there(file):
            yield f"{file} is a kubelet's"
    if is_there(KUBEEDGE_FILE) and source != str(KUBEEDGE_FILE):
        yield f"{KUBEEDGE_FILE} configures another edgecore than {source}"


def _processes(proc: Path) -> Iterator[tuple[str, str]]:
    """Yield process id and name of compiled programs; edgecore itself is a Python program."""
    for entry in proc.iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                program = (entry / "exe").readlink().name
                if not program.startswith("python"):
                    yield entry.name, program


def _listener(address: str, port: int, proc: Path) -> str:
    """Return the process that listens on a port of an address (empty: any address) as a phrase; empty if the port is
    free.
    """
    for number, inode in _listeners(proc):
        if number[1] == port and (not address or number[0] == address or _is_any(number[0]) or _is_any(address)):
            return f"by {_owner(inode, proc)}"
    return ""


def _listeners(proc: Path) -> Iterator[tuple[tuple[str, int], str]]:
    """Yield the listening addresses with the inodes of their sockets."""
    for name in ("tcp", "tcp6"):
        for line in _text(proc / "net" / name).splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTEN:
                host, _, port = fields[1].partition(":")
                yield (_address(host), int(port, 16)), fields[9]


def _address(digits: str) -> str:
    """Decode an address of the kernel's tables: words of four bytes in the machine's order, here little-endian."""
    words = [bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return socket.inet_ntop(family, b"".join(words)).removeprefix("::ffff:")


def _is_any(address: str) -> bool:
    return address in ("0.0.0.0", "::")  # noqa: S104 - recognised, not listened on


def _owner(inode: str, proc: Path) -> str:
    """Return the process of a socket, if this user can see it."""
    for entry in proc.iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                if any(str(each.readlink()) == f"socket:[{inode}]" for each in (entry / "fd").iterdir()):
                    return f"process {entry.name} ({_text(entry / 'comm').strip()})"
    return "a process that this user cannot see"


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST).decode("utf-8", "replace")
    except OSError:
        return ""
