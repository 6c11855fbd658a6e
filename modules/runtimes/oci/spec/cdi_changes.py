"""Devices by name (`vendor.com/class=name`), as files of the Container Device Interface describe them, and the changes
that they make to a specification.

Vendors write the files, in JSON or YAML. They list the changes of a container for each device. The directories belong
to root, and their files are as trusted as the vendor's driver.
"""

import errno
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from beehive.decoding import convert, decode_json
from modules.runtimes.engine.errors import BadRequestError, WrongStateError
from modules.runtimes.oci.spec.devices import device_at
from modules.runtimes.oci.spec.model import Json
from modules.runtimes.oci.spec.paths import checked_path

_LARGEST: Final = 256 << 10
"""Bytes of a file; a machine with eight GPUs has about 40,000."""
_MOST_FILES: Final = 256
_MOST_NAMES: Final = 1024
"""Devices of a container."""
_DEEPEST: Final = 32
_NAME: Final = re.compile(r"([A-Za-z][\w.-]{0,253}/[A-Za-z][\w-]{0,62})=([A-Za-z0-9][\w.:-]{0,253})", re.ASCII)
_ENDINGS: Final = (".json", ".yaml")

_HOOKS: Final = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
_LARGEST_ID: Final = (1 << 32) - 2


class CdiDeviceNode(Struct, frozen=True, rename="camel"):
    """A device node; fields that are left out come from the machine's node."""

    path: str
    host_path: str = ""
    type: str = ""
    major: int | None = None
    minor: int | None = None
    file_mode: int | None = None
    permissions: str = "rwm"
    uid: int | None = None
    gid: int | None = None


class CdiMount(Struct, frozen=True, rename="camel"):
    """A mount of a path of the machine."""

    host_path: str
    container_path: str
    options: list[str] = []
    type: str = "bind"


class CdiHook(Struct, frozen=True, rename="camel"):
    """A program of the machine that the OCI runtime runs at a point of the container's life."""

    hook_name: str
    path: str
    args: list[str] = []
    env: list[str] = []
    timeout: int | None = None


class CdiEdits(Struct, frozen=True, rename="camel"):
    """Changes of a container."""

    env: list[str] = []
    device_nodes: list[CdiDeviceNode] = []
    mounts: list[CdiMount] = []
    hooks: list[CdiHook] = []
    additional_gids: list[int] = msgspec.field(default_factory=list, name="additionalGids")


class CdiEntry(Struct, frozen=True, rename="camel"):
    """One device of a file."""

    name: str
    container_edits: CdiEdits = CdiEdits()


class CdiFile(Struct, frozen=True, rename="camel"):
    """A file: its devices, and the changes for every container that uses any of them."""

    kind: str
    devices: list[CdiEntry] = []
    container_edits: CdiEdits = CdiEdits()


def cdi_edits(attempt: str, names: Sequence[str], directories: Sequence[Path]) -> list[CdiEdits]:
    """Return the changes for these devices, in their order; a file's common changes come before its first's.

    For a device in several directories, the last directory counts.

    Raises:
        BadRequestError: a name is no name of a device.
        WrongStateError: no file has the device, or two of one directory have it.
    """
    if len(names) > _MOST_NAMES:
        raise BadRequestError(attempt, f"it has {len(names)} CDI devices, the most are {_MOST_NAMES}")
    if wrong := next((name for name in names if not _NAME.fullmatch(name)), None):
        raise BadRequestError(attempt, f"{wrong[:100]!r} is no name of a CDI device", "as vendor.com/class=name")
    known = _Registry(directories)
    edits: list[CdiEdits] = []
    used: list[CdiFile] = []
    for name in names:
        file, entry = known.find(attempt, name)
        if not any(each is file for each in used):
            used.append(file)
            edits.append(file.container_edits)
        edits.append(entry.container_edits)
    return edits


class _Registry:
    """All devices of all directories."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._found: dict[str, list[tuple[CdiFile, CdiEntry]]] = {}
        self._problems: list[str] = []
        for directory in directories:
            self._read(directory)

    def find(self, attempt: str, name: str) -> tuple[CdiFile, CdiEntry]:
        found = self._found.get(name, [])
        if len(found) == 1:
            return found[0]
        if found:
            raise WrongStateError(attempt, f"two files of one directory have the CDI device {name}", "remove one")
        problems = f"; {'; '.join(self._problems[:3])}" if self._problems else ""
        hint = "`ls /etc/cdi /var/run/cdi`: the vendor's tool writes a file there"
        raise WrongStateError(attempt, f"unresolvable CDI device {name}{problems}", hint)

    def _read(self, directory: Path) -> None:
        here: dict[str, list[tuple[CdiFile, CdiEntry]]] = {}
        for path in _files(directory):
            try:
                file = _decoded(path)
            except (OSError, ValueError, msgspec.DecodeError) as error:
                self._problems.append(f"{path} is wrong: {str(error)[:200]}")
                continue
            for entry in file.devices:
                here.setdefault(f"{file.kind}={entry.name}", []).append((file, entry))
        self._found |= here


def _files(directory: Path) -> Iterator[Path]:
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(_ENDINGS))  # noqa: PTH208
    except OSError:
        return
    yield from (directory / name for name in names[:_MOST_FILES])


def _decoded(path: Path) -> CdiFile:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:  # noqa: PTH123 - a descriptor
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise OSError(errno.EFBIG, f"it has more than {_LARGEST} bytes")
    if path.suffix == ".json":
        return decode_json(content, CdiFile)
    return convert(_yaml(content.decode()), CdiFile)


def _yaml(text: str) -> Any:
    """Read YAML without aliases, which can make much of little, and not too deep."""
    import yaml  # noqa: PLC0415 - only where such files are

    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent) or depth > _DEEPEST:
                raise OSError(errno.EINVAL, "it has an alias or is too deep")
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def with_changes(attempt: str, spec: Json, names: Sequence[str], directories: Sequence[Path]) -> Json:
    """Return a specification with the changes of CDI devices.

    Raises:
        BadRequestError: an invalid name.
        WrongStateError: a device that no file describes, or a file with a wrong change.
    """
    edits = cdi_edits(attempt, names, directories)
    try:
        return _changed(attempt, spec, edits)
    except BadRequestError as error:
        raise WrongStateError(attempt, f"a CDI file is wrong: {error.reason}") from error


def _changed(attempt: str, spec: Json, edits: Sequence[CdiEdits]) -> Json:
    process, linux = spec["process"], spec["linux"]
    devices = {device["path"]: device for device in linux["devices"]}
    rules = list(linux["resources"]["devices"])
    mounts = {mount["destination"]: mount for mount in spec["mounts"]}
    hooks: dict[str, list[Json]] = {}
    gids = list(process["user"]["additionalGids"])
    for each in edits:
        for node in each.device_nodes:
            device = _device(attempt, node)
            devices[device["path"]] = device
            rules.append(_rule(attempt, device, node.permissions))
        for mount in each.mounts:
            made = _mount(attempt, mount)
            mounts.pop(made["destination"], None)
            mounts[made["destination"]] = made
        for hook in each.hooks:
            hooks.setdefault(_checked_hook(attempt, hook), []).append(_hook(hook))
        gids += (gid for gid in each.additional_gids if 0 < gid <= _LARGEST_ID)
    changed: Json = {
        **spec,
        "process": {
            **process,
            "env": _environment(attempt, process["env"], edits),
            "user": {**process["user"], "additionalGids": list(dict.fromkeys(gids))},
        },
        "mounts": sorted(mounts.values(), key=lambda mount: str(mount["destination"]).count("/")),
        "linux": {
            **linux,
            "devices": list(devices.values()),
            "resources": {**linux["resources"], "devices": rules},
        },
    }
    return {**changed, "hooks": hooks} if hooks else changed


def _environment(attempt: str, before: Sequence[str], edits: Sequence[CdiEdits]) -> list[str]:
    variables = {variable.partition("=")[0]: variable for variable in before}
    for variable in (variable for each in edits for variable in each.env):
        name, equals, _ = variable.partition("=")
        if not name or not equals or "\0" in variable:
            raise BadRequestError(attempt, f"{variable[:60]!r} is no variable")
        variables[name] = variable
    return list(variables.values())


def _device(attempt: str, node: CdiDeviceNode) -> Json:
    inside = checked_path(attempt, node.path, "the path of a device")
    kind = {"c": "c", "u": "c", "b": "b"}.get(node.type)
    if node.type and kind is None:
        raise BadRequestError(attempt, f"{node.type[:20]!r} is no type of a device")
    asked: Json = {"type": kind, "major": node.major, "minor": node.minor}
    asked |= {"fileMode": node.file_mode, "uid": node.uid, "gid": node.gid}
    if kind and node.major is not None and node.minor is not None:
        found: Json = {"path": inside, "fileMode": 0o666}
    else:
        found = device_at(attempt, checked_path(attempt, node.host_path or node.path, "the path of a device"), inside)
    return found | {key: value for key, value in asked.items() if value is not None}


def _rule(attempt: str, device: Json, permissions: str) -> Json:
    if not permissions or set(permissions) - set("rwm"):
        raise BadRequestError(attempt, f"{permissions[:20]!r} are no permissions of a device")
    chosen: dict[str, Any] = {key: device[key] for key in ("type", "major", "minor")}
    return {"allow": True, **chosen, "access": permissions}


def _mount(attempt: str, mount: CdiMount) -> Json:
    kind = mount.type or "bind"
    is_plain = kind == "bind" and not {"bind", "rbind"} & set(mount.options)
    source = mount.host_path
    if kind == "bind":
        source = os.path.realpath(checked_path(attempt, source, "the host path"))
    return {
        "destination": checked_path(attempt, mount.container_path, "the mount path"),
        "type": kind,
        "source": source,
        "options": [*(["rbind"] if is_plain else []), *mount.options],
    }


def _checked_hook(attempt: str, hook: CdiHook) -> str:
    if hook.hook_name not in _HOOKS:
        raise BadRequestError(attempt, f"there is no hook {hook.hook_name[:60]!r}")
    checked_path(attempt, hook.path, "the hook's program")
    return hook.hook_name


def _hook(hook: CdiHook) -> Json:
    made: Json = {"path": hook.path, "args": hook.args, "env": hook.env}
    return made if hook.timeout is None else {**made, "timeout": hook.timeout}
