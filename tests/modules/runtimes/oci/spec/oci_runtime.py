"""Runs specifications in real containers, with crun or runc on a root of busybox, and leaves nothing behind."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from modules.runtimes.oci.spec import CgroupLayout, Json, Machine, NamespacePaths, SandboxFiles
from modules.runtimes.oci.spec import check_container as refuse
from modules.runtimes.oci.spec import container_spec as translate
from modules.runtimes.oci.spec.model import ImageVolume, OciSpec
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.spec.samples import IMAGE, SampleImage
from tests.support.directories import mark
from tests.support.patience import PATIENCE

_BUSYBOX: Final = Path("/bin/busybox")
_APPLETS: Final = ("cat", "chmod", "dd", "grep", "hostname", "id", "ls", "mkdir", "mount", "sh", "sleep", "touch")
_PASSWD: Final = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/:/bin/sh\nuser:x:1000:1000::/home:/bin/sh\n"  # noqa: S105
_GROUP: Final = "root:x:0:\nwww-data:x:33:\nuser:x:1000:\nextra:x:50000:www-data,user\n"
_WITHOUT_UNIFIED: Final = 'mount --make-rprivate /sys/fs/cgroup && umount -l /sys/fs/cgroup/unified && exec "$@"'
"""crun refuses hybrid control groups; without version 2 in its own mount namespace they are version 1."""


def missing(runtime: str) -> str:
    """Return why containers cannot run here; empty if they can."""
    if os.geteuid() != 0:
        return "containers need root"
    if shutil.which(runtime) is None:
        return f"{runtime} is not installed"
    if not _BUSYBOX.exists():
        return "no static busybox (busybox-static)"
    return ""


class Bench:
    """One test's containers.

    Args:
        runtime: crun or runc.
        top: an empty directory.
    """

    def __init__(self, runtime: str, top: Path) -> None:
        self.machine = Machine.read()
        self.rootfs = top / "rootfs"
        self.files = SandboxFiles(top / "hostname", top / "hosts", top / "resolv.conf", top / "shm")
        self._parent = f"/edgecore-test-{mark()}-{os.getpid()}"
        self._runtime = runtime
        self._top = top
        self._number = 0
        self._make_root()

    def _make_root(self) -> None:
        for name in ("bin", "dev", "etc", "proc", "root", "sys", "tmp", "home", "usr/sbin"):
            (self.rootfs / name).mkdir(parents=True)
        shutil.copy(_BUSYBOX, self.rootfs / "bin/busybox")
        for name in _APPLETS:
            (self.rootfs / "bin" / name).symlink_to("busybox")
        (self.rootfs / "etc/passwd").write_text(_PASSWD)
        (self.rootfs / "etc/group").write_text(_GROUP)
        for file in (self.files.hostname, self.files.hosts, self.files.resolv_conf):
            file.write_text(f"{file.name}\n")
        self.files.shm.mkdir()

    def spec(
        self,
        config: cri.ContainerConfig,
        namespaces: NamespacePaths | None = None,
        image: SampleImage = IMAGE,
        volumes: dict[str, ImageVolume] | None = None,
    ) -> OciSpec:
        """Return the specification of a container, checked as CreateContainer does. The sandbox is privileged."""
        asked = cri.CreateContainerRequest(pod_sandbox_id="5" * 64, config=config)
        asked.config.metadata.name = "main"
        asked.sandbox_config.hostname = "test-host"
        asked.sandbox_config.linux.cgroup_parent = self._parent
        asked.sandbox_config.linux.security_context.privileged = True
        refuse(asked, image, self.machine)
        self._number += 1
        paths = namespaces or NamespacePaths()
        name = f"c{self._number}"
        return translate(
            asked, image, self.rootfs, paths, self.files, self.machine, container_id=name, volumes=volumes or {}
        )

    def run(self, spec: OciSpec) -> subprocess.CompletedProcess[str]:
        """Run a container to its end; return its output and exit code."""
        name, bundle = self._bundle(spec.config)
        try:
            return self._call("run", "-b", str(bundle), name)
        finally:
            self._call("delete", "-f", name)

    @contextmanager
    def running(self, spec: OciSpec) -> Iterator["Running"]:
        """Run a container for as long as the context lasts."""
        name, bundle = self._bundle(spec.config)
        try:
            created = self._call("create", "-b", str(bundle), name, quiet=True)
            assert created.returncode == 0, (bundle / "stderr").read_text()
            assert self._call("start", name).returncode == 0
            yield Running(self, name, spec.config, bundle)
        finally:
            self._call("delete", "-f", name)

    def _bundle(self, config: Json) -> tuple[str, Path]:
        name = str(config["linux"]["cgroupsPath"]).rpartition("/")[2]
        bundle = self._top / name
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps(config))
        return name, bundle

    def _call(self, *arguments: str, quiet: bool = False) -> subprocess.CompletedProcess[str]:
        command = [self._runtime, "--root", str(self._top / "state"), *arguments]
        if self.machine.cgroup_layout is CgroupLayout.HYBRID:
            command = ["unshare", "-m", "--propagation", "unchanged", "sh", "-c", _WITHOUT_UNIFIED, "sh", *command]
        if quiet:  # its output is the container's, which outlives it
            with (Path(arguments[2]) / "stderr").open("w") as file:
                return subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    text=True,
                    timeout=PATIENCE,
                    check=False,
                )
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Call the runtime."""
        return self._call(*arguments)

    def close(self) -> None:
        """Remove the control groups."""
        tops = {Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir()}
        for group in {top / self._parent.strip("/") for top in tops}:
            with suppress(OSError):
                group.rmdir()

    def cgroup(self, spec: Json, controller: str) -> Path:
        """Return the directory of a container's control group."""
        top = Path("/sys/fs/cgroup")
        below = str(spec["linux"]["cgroupsPath"]).strip("/")
        return top / below if self.machine.cgroup_layout is CgroupLayout.UNIFIED else top / controller / below


class Running:
    """A container that runs."""

    def __init__(self, bench: Bench, name: str, config: Json, bundle: Path) -> None:
        self.config = config
        self._bench = bench
        self._name = name
        self._bundle = bundle

    def exec(self, process: Json) -> subprocess.CompletedProcess[str]:
        """Run a process in it, as `process.json` says."""
        file = self._bundle / "process.json"
        file.write_text(json.dumps(process))
        return self._bench.call("exec", "--process", str(file), self._name)

    def update(self, resources: Json) -> None:
        """Change its limits."""
        file = self._bundle / "resources.json"
        file.write_text(json.dumps(resources))
        done = self._bench.call("update", "-r", str(file), self._name)
        assert done.returncode == 0, done.stderr

    def pid(self) -> int:
        """Return its first process."""
        return int(json.loads(self._bench.call("state", self._name).stdout)["pid"])


def shell(*commands: str) -> list[str]:
    """Return a command line that runs these commands whatever each returns."""
    return ["/bin/sh", "-c", "; ".join(commands)]


@contextmanager
def mounted(target: Path, propagation: str = "--make-private") -> Iterator[Path]:
    """Mount a small tmpfs, and unmount it and all below it at the end."""
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", target), check=True)
    try:
        subprocess.run(("mount", propagation, target), check=True)
        yield target
    finally:
        subprocess.run(("umount", "-R", "-l", target), check=False)
