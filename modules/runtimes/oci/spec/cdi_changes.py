"""Changes that CDI devices make to a specification."""

import os
from collections.abc import Sequence
from typing import Any, Final

from modules.runtimes.engine.errors import BadRequestError, WrongStateError
from modules.runtimes.oci.spec.cdi import CdiDeviceNode, CdiEdits, CdiHook, CdiMount, cdi_edits
from modules.runtimes.oci.spec.devices import device_at
from modules.runtimes.oci.spec.machine import Machine
from modules.runtimes.oci.spec.model import Json
from modules.runtimes.oci.spec.paths import checked_path
from protos.cri.v1 import api_pb2 as cri

_HOOKS: Final = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
_LARGEST_ID: Final = (1 << 32) - 2


def check_cdi(attempt: str, config: cri.ContainerConfig, machine: Machine) -> None:
    """Refuse devices that no file describes. Raises as `with_cdi_devices`."""
    empty: Json = {"process": {"env": [], "user": {"additionalGids": []}}, "mounts": [], "linux": {"devices": []}}
    empty["linux"]["resources"] = {"devices": []}
    with_cdi_devices(attempt, empty, config, machine)


def with_cdi_devices(attempt: str, spec: Json, config: cri.ContainerConfig, machine: Machine) -> Json:
    """Return a specification with the changes of the container's CDI devices.

    Raises:
        BadRequestError: an invalid name.
        WrongStateError: a device that no file describes, or a file with a wrong change.
    """
    edits = cdi_edits(attempt, [device.name for device in config.CDI_devices], machine.cdi_directories)
    if not edits:
        return spec
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
