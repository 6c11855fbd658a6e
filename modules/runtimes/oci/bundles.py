"""The bundle that a container needs before it can be created: root file system, image volumes and config.json."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from beehive.decoding import decode_json
from beehive.files.durable import replace_soon, write_soon
from beehive.files.reading import list_directory, read_file
from modules.runtimes.engine.containers import changed_resources
from modules.runtimes.engine.errors import NoSuchObjectError, WrongStateError
from modules.runtimes.engine.model import Sandbox
from modules.runtimes.engine.registry import Registry
from modules.runtimes.oci.boot_directory import BootDirectory
from modules.runtimes.oci.crun.conmon import BUNDLE
from modules.runtimes.oci.images import (
    ImageConfig,
    ImageRoot,
    ImageStore,
    MappedRoot,
    RootFilesystems,
    StoredImage,
    make_declared_volumes,
)
from modules.runtimes.oci.mapped_roots import MappedRoots
from modules.runtimes.oci.model import OciContainer
from modules.runtimes.oci.network.namespaces import PodNamespaces
from modules.runtimes.oci.sandbox_files import SHM_BYTES, sandbox_files
from modules.runtimes.oci.seccomp_programs import SeccompPrograms
from modules.runtimes.oci.spec import (
    ImageVolume,
    Json,
    Machine,
    NamespacePaths,
    OciSpec,
    check_container,
    check_resources,
    container_spec,
    declared_volumes,
    selinux_labels,
    updated_resources,
)
from modules.runtimes.oci.spec.mounts import inside_image
from modules.runtimes.oci.spec.users import names_user, resolve_linux_user
from modules.runtimes.oci.users import mapped_root
from protos.cri.v1 import api_pb2 as cri

_CONFIG: Final = "config.json"
_VOLUMES: Final = "volumes"
_MACHINE_SHM: Final = Path("/dev/shm")  # noqa: S108 - it is what a pod with hostIPC mounts
_LARGEST_CONFIG: Final = 64 * 1024 * 1024


class Places(NamedTuple):
    """The directories that hold the parts of bundles."""

    roots: RootFilesystems
    mapped: MappedRoots
    boot: BootDirectory


class Bundles:
    """The maker and remover of root file systems and configurations."""

    def __init__(
        self,
        registry: Registry[OciContainer],
        images: ImageStore,
        places: Places,
        namespaces: PodNamespaces,
        machine: Machine,
        programs: SeccompPrograms,
    ) -> None:
        self._registry = registry
        self._images = images
        self._roots, self._mapped, self._boot = places
        self._namespaces = namespaces
        self._machine = machine
        self._programs = programs

    def check(self, request: cri.CreateContainerRequest) -> tuple[StoredImage, tuple[tuple[str, str], ...]]:
        """Return the image of a new container, and the ids of the images that it mounts, by their names.

        Raises:
            NoSuchObjectError: an image is not on this machine.
            RequestRefusedError: the container can never run.
        """
        attempt = f'create container "{request.config.metadata.name}"'
        image = self._image(request.config.image.image, attempt)
        check_container(request, image.config, self._machine)
        mounted = sorted({each.image.image for each in request.config.mounts if each.image.image})
        return image, tuple((name, self._image(name, attempt).id) for name in mounted)

    def hold(self, container: OciContainer) -> None:
        """Keep the images of a container until `forget`. Raises NoSuchObjectError."""
        for holder, image_id in holds_of(container).items():
            self._images.hold(holder, image_id)

    def check_images(self, container: OciContainer) -> None:
        """Look for the paths that are mounted from images, and for a user or group that has a name: each image is
        mounted for a moment.

        Where there are no overlays, the start of the container does it: a copy of an image takes too long.

        Raises:
            BadRequestError: an image lacks a path, a user or a group.
            RequestRefusedError: it cannot be mounted.
        """
        if not self._roots.has_overlays:
            return
        attempt, images = f'create container "{container.config.metadata.name}"', dict(container.record.image_volumes)
        security = container.config.linux.security_context
        image_user = self._images.get(container.image_id).config.user
        if names_user(security, image_user):
            with self._mounted_image(container, container.image_id) as root:
                resolve_linux_user(root, security, image_user)
        for mount in container.config.mounts:
            if mount.image.image and mount.image_sub_path:
                image_id = images[mount.image.image]
                with self._mounted_image(container, image_id) as root:
                    inside_image(attempt, mount, {mount.image.image: ImageVolume(root, image_id)})

    @contextmanager
    def _mounted_image(self, container: OciContainer, image_id: str) -> Iterator[Path]:
        """Mount an image for a moment."""
        scratch = container.directory.with_name(f".{container.id}")
        scratch.mkdir()
        try:
            yield self._roots.mount_image(image_id, scratch)
        finally:
            self._roots.remove(scratch)

    def make(self, container: OciContainer) -> OciSpec:
        """Mount the root file system and write config.json; `release` undoes it.

        Raises:
            RequestRefusedError: a request of the container cannot be fulfilled.
            OSError: the machine refuses something.
        """
        sandbox = self._registry.sandbox(container.sandbox_id)
        namespaces = self._namespaces_of(container)
        root = mapped_root(sandbox.config, namespaces.user)
        label = self._label(container)
        rootfs = self._roots.mount(container.image_id, container.directory, root, label)
        image = self._images.get(container.image_id).config
        spec = container_spec(
            container.request,
            image,
            rootfs,
            namespaces,
            sandbox_files(sandbox.directory, self._shm(container)),
            self._machine,
            container_id=container.id,
            volumes=self._volumes(container, root),
            declared=_declared(container, image, ImageRoot(rootfs, root, label)),
        )
        config = self._programs.applied(spec.config)
        if root is not None:
            reached = str(self._mapped.bind(container.id, rootfs, root.gid))
            config = {**config, "root": {**config["root"], "path": reached}}
        self._boot.make_bundle(container.directory)
        write_soon(f"{container.directory}/{BUNDLE}/{_CONFIG}", json.dumps(config).encode())
        return spec

    def started(self, container: OciContainer, spec: OciSpec) -> None:
        """Keep the seccomp program that the start of a container has compiled, for later containers."""
        self._programs.learn(container.id, spec.config)

    def check_limits(self, container: OciContainer, wanted: cri.LinuxContainerResources, attempt: str) -> None:
        """Check the limits that a container which has not run has after a change.

        Raises:
            BadRequestError: they are wrong.
            WrongStateError: this machine does not have them.
        """
        check_resources(attempt, changed_resources(container.config.linux.resources, wanted), self._machine)

    def with_limits(self, container: OciContainer, wanted: cri.LinuxContainerResources) -> Json:
        """Return the limits of a container after a change. Raises as `updated_resources`."""
        return updated_resources(read_config(container.directory), wanted, self._machine)

    def keep_limits(self, container: OciContainer, limits: Json) -> None:
        """Keep the limits that a container has from now on. Raises OSError."""
        config = read_config(container.directory)
        config["linux"]["resources"] = {**limits, "devices": config["linux"]["resources"].get("devices", [])}
        replace_soon(container.directory / BUNDLE / _CONFIG, json.dumps(config).encode())

    def unmount(self, directory: Path) -> None:
        """Undo mounts for the container of a directory, and remove its bundle. Raises RequestRefusedError, OSError."""
        self._mapped.unbind(directory.name)
        for volume in list_directory(directory / _VOLUMES):
            self._roots.remove(volume)
        self._roots.unmount(directory)
        self._boot.remove_bundle(directory.name)

    def forget(self, container: OciContainer) -> None:
        """Let go the images of a container that is removed."""
        for holder in holds_of(container):
            self._images.release(holder)

    def _image(self, name: str, attempt: str) -> StoredImage:
        image = self._images.find(name)
        if image is None:
            raise NoSuchObjectError(attempt, f'there is no image "{name}"', "pull or import it first")
        return image

    def _label(self, container: OciContainer) -> str:
        return selinux_labels(container.config.linux.security_context, self._machine).files

    def _shm(self, container: OciContainer) -> Path:
        """Return the sandbox's /dev/shm; a sandbox with the machine's ipc uses the machine's."""
        if container.config.linux.security_context.namespace_options.ipc == cri.NODE:
            return _MACHINE_SHM
        return self._namespaces.shm(container.sandbox_id, SHM_BYTES)

    def _volumes(self, container: OciContainer, root: MappedRoot | None) -> dict[str, ImageVolume]:
        """Mount the image volumes of a container, by the images' names."""
        found = {}
        for number, (name, image_id) in enumerate(container.record.image_volumes):
            directory = container.directory / _VOLUMES / str(number)
            directory.mkdir(parents=True, exist_ok=True)
            found[name] = ImageVolume(self._roots.mount_image(image_id, directory, root), image_id)
        return found

    def _namespaces_of(self, container: OciContainer) -> NamespacePaths:
        pinned = self._namespaces.pinned(container.sandbox_id)
        if pinned is None:
            raise WrongStateError(f"start container {container.id}", "the namespaces of its sandbox are gone")
        return NamespacePaths(
            network=pinned.network,
            ipc=pinned.ipc,
            uts=pinned.uts,
            pid=self._shared_processes(container),
            user=pinned.user,
        )

    def _shared_processes(self, container: OciContainer) -> Path | None:
        """Return the process namespace that a container joins: its pod's or its target's; None for neither."""
        security = container.config.linux.security_context
        options, sandbox = security.namespace_options, self._registry.sandbox(container.sandbox_id)
        if not security.HasField("namespace_options"):
            return None
        if options.pid == cri.TARGET:
            target = self._registry.find_container(options.target_id)
            if target is not None and target.sandbox_id == sandbox.id and target.run and not target.exit:
                return Path(f"/proc/{target.run.pid}/ns/pid")
        if options.pid == cri.POD:
            return self._namespaces.processes(sandbox.id, self._group_of_first_process(sandbox))
        return None

    def _group_of_first_process(self, sandbox: Sandbox) -> str:
        """Return the control group of the process that holds a pod's process namespace; empty for edgecore's own.

        Below a slice systemd alone makes groups.
        """
        parent = sandbox.config.linux.cgroup_parent.strip("/")
        return f"/{parent}/{sandbox.id}" if parent and not self._machine.systemd_cgroups else ""


def _declared(container: OciContainer, image: ImageConfig, root: ImageRoot) -> dict[str, Path]:
    """Make the directories for the volumes that the image declares; return them by their paths in the container."""
    paths = declared_volumes(f"start container {container.id}", container.config, image)
    return make_declared_volumes(container.directory, root, paths) if paths else {}


def holds_of(container: OciContainer) -> dict[str, str]:
    """Return the images that a container keeps, by the names of its holds."""
    holds = {str(container.id): container.image_id}
    return holds | {f"{container.id}:{image_id}": image_id for _, image_id in container.record.image_volumes}


def read_config(directory: Path) -> Json:
    """Return the config.json of a container's directory. Raises OSError."""
    return decode_json(read_file(directory / BUNDLE / _CONFIG, _LARGEST_CONFIG), dict)
