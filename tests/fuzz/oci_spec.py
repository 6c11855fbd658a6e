"""Target of the OCI runtime: requests of CRI with any content, made into config.json.

A case is a request as bytes; fields are mutated on the wire, and others set to values that mean something. Either it is
refused as documented, or the specification is JSON without a way out of the container.
"""

import json
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from modules.runtimes.engine.errors import RequestRefusedError
from modules.runtimes.oci.spec import (
    ImageVolume,
    Machine,
    check_container,
    check_sandbox,
    container_spec,
    exec_process,
    stop_signal,
    updated_resources,
)
from protos.cri.v1 import api_pb2 as cri
from tests.fuzz.mutate import mutate
from tests.fuzz.target import Target, must
from tests.modules.runtimes.oci.spec.samples import FILES, ID, PATHS, UNIFIED, SampleImage
from tests.support.directories import AT_END, new_directory, temporary_parent

TEXTS: Final = (
    "", "/", "/dev", "/dev/", "/dev/null", "/proc", "/sys/fs", "../..", "/a/../..", "/etc/hosts", "/v", "//v/./w", "v",
    "a\0b", "x" * 5000, "/x" * 3000, "é/ü", "localhost/x", "runtime/default", "unconfined", "ALL", "CAP_NET_ADMIN",
    "root", "0", "-1", "rwm", "mm", "0-3", "net.ipv4.x", "kernel.shmmax", "vm.x", "2MB", "i:1", "\n", "%s{}",
    "kube.slice",
)  # fmt: skip
_HOST_PATHS: Final = ("/", "/dev", "/dev/null", "/proc", "/etc/hosts")
_NUMBERS: Final = (0, 1, -1, 2, 1000, 2**31 - 1, 2**32 - 1, 2**32, 2**63 - 1, -(2**63))


@cache
def _rootfs() -> Path:
    """An image for the whole run."""
    top = new_directory("fuzz-oci-", temporary_parent())
    AT_END.callback(shutil.rmtree, top, ignore_errors=True)
    (top / "etc").mkdir()
    (top / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n")
    (top / "etc/group").write_text("root:x:0:\nextra:x:50:user\n")
    return top


def requests() -> Sequence[bytes]:
    """Requests for a container, encoded."""
    whole = cri.CreateContainerRequest(pod_sandbox_id="5" * 64)
    config = whole.config
    config.metadata.name = "main"
    config.command.extend(("sh", "-c"))
    config.args.append("true")
    config.envs.add(key="A", value=b"1")
    config.mounts.add(container_path="/v", host_path="/", readonly=True, recursive_read_only=True)
    config.mounts.add(container_path="/i", readonly=True, image_sub_path="etc").image.image = "i:1"
    config.devices.add(container_path="/dev/n", host_path="/dev/null", permissions="rw")
    config.working_dir = "/tmp"
    limits = config.linux.resources
    limits.memory_limit_in_bytes, limits.cpu_shares, limits.cpu_period, limits.cpu_quota = 1 << 20, 2, 1000, 1000
    limits.unified["memory.high"] = "1"
    limits.hugepage_limits.add(page_size="2MB", limit=1)
    security = config.linux.security_context
    security.run_as_user.value = 1000
    security.supplemental_groups.append(5)
    security.capabilities.add_capabilities.append("NET_ADMIN")
    security.masked_paths.append("/proc/kcore")
    security.seccomp.profile_type = cri.SecurityProfile.RuntimeDefault
    security.namespace_options.pid = cri.CONTAINER
    sandbox = whole.sandbox_config
    sandbox.metadata.name, sandbox.hostname = "web", "host"
    sandbox.linux.cgroup_parent = "/kubepods/pod1"
    sandbox.linux.sysctls["net.ipv4.x"] = "1"
    sandbox.linux.security_context.privileged = True
    plain = cri.CreateContainerRequest()
    plain.CopyFrom(whole)
    plain.config.linux.Clear()
    return (whole.SerializeToString(), whole.SerializeToString(), plain.SerializeToString())


def disturbed(data: bytes, random: Random) -> cri.CreateContainerRequest | None:
    """Return a request with some fields set to something odd; None if it cannot be decoded."""
    request = cri.CreateContainerRequest()
    try:
        request.MergeFromString(data)
    except (DecodeError, UnicodeDecodeError):
        return None
    for _ in range(random.randint(0, 8)):
        _disturb(request, random)
    return request


def _check(data: bytes, random: Random) -> None:
    request = disturbed(data, random)
    if request is None:
        return
    machine = UNIFIED
    image = SampleImage(
        user=random.choice(("", "user", *TEXTS[:9])), command=(random.choice(TEXTS),), stop_signal=random.choice(TEXTS)
    )
    must(0 < stop_signal(request.config, image) <= 64, "a signal is one that can be sent")
    try:
        if random.random() < 0.2:
            check_sandbox(cri.RunPodSandboxRequest(config=request.sandbox_config), machine)
        check_container(request, image, machine)
        _check_spec(request, image, machine)
    except RequestRefusedError as error:
        must(len(str(error)) < 6000, "an error is no page")


def _check_spec(request: cri.CreateContainerRequest, image: SampleImage, machine: Machine) -> None:
    for mount in request.config.mounts:
        if mount.host_path not in _HOST_PATHS:
            mount.host_path = "" if mount.image.image else "/"  # what is missing would be made on this machine
    volumes = {"i:1": ImageVolume(_rootfs(), "sha256:1")}
    spec = container_spec(request, image, _rootfs(), PATHS, FILES, machine, container_id=ID, volumes=volumes)
    config: dict[str, Any] = json.loads(json.dumps(spec.config))
    must(config == spec.config, "a specification is JSON")
    must(not any(".." in mount["destination"].split("/") for mount in config["mounts"]), "no mount climbs")
    must(config["linux"]["cgroupsPath"].endswith(f"/{ID}"), "a container's group is below its pod's")
    must(0 <= spec.user.uid < 2**32 - 1, "a user is one of Linux")
    if not request.config.linux.security_context.privileged:
        must(len(config["linux"]["resources"]["devices"]) < 6000, "devices are permitted one by one")
    exec_process(spec.config, ["true"], tty=True)
    updated_resources(spec.config, request.config.linux.resources, machine)


def _disturb(message: Message, random: Random) -> None:
    """Set one field somewhere in a message to something odd."""
    field: Any = random.choice(message.DESCRIPTOR.fields)
    held = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        if field.message_type.fields_by_name["value"].type == FieldDescriptor.TYPE_STRING:
            held[random.choice(TEXTS)] = random.choice(TEXTS)
    elif field.message_type is not None:
        inner = held
        if field.is_repeated:
            inner = held.add() if not held or random.random() < 0.5 else random.choice(list(held))
        else:
            inner.SetInParent()
        _disturb(inner, random)
    else:
        _set(message, field, random)


def _set(message: Message, field: FieldDescriptor, random: Random) -> None:
    if field.type == FieldDescriptor.TYPE_STRING:
        value: object = random.choice(TEXTS)
    elif field.type == FieldDescriptor.TYPE_BYTES:
        value = random.choice(TEXTS).encode() + random.choice((b"", b"\xff"))
    elif field.type == FieldDescriptor.TYPE_BOOL:
        value = random.random() < 0.5
    elif field.type == FieldDescriptor.TYPE_ENUM:
        value = random.choice((0, 1, 2, 3, 4, 77, -1))
    else:
        value = random.choice(_NUMBERS)
    try:
        if field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)
    except ValueError:
        return  # a number that the field cannot have


def make_request(random: Random, seeds: Sequence[bytes]) -> bytes:
    """Most requests decode: what is on the wire is protobuf's to check."""
    return mutate(random, seeds) if random.random() < 0.2 else random.choice(seeds)


TARGETS: Final = (Target("oci-spec", requests, _check, make=make_request),)
