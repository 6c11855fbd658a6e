"""The installation of one row, from outside: a cloud, one or two nodes, and the commands of both programs."""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import yaml

from tests.chaos.proxy import Proxy
from tests.end_to_end.processes import mounts_below, processes_of
from tests.end_to_end.runtimes import (
    IMAGES,
    ContainerdUnderTest,
    DockerUnderTest,
    EmbeddedUnderTest,
    OciUnderTest,
    RuntimeUnderTest,
)
from tests.support.containerd import PrivateContainerd
from tests.support.directories import new_directory
from tests.support.dockerd import PrivateDockerd
from tests.support.images import busybox_image, docker_archive
from tests.support.leftovers import remove_cgroups, unmount_under
from tests.support.patience import PATIENCE
from tests.support.ports import free_port
from tests.walks.account import Account, place
from tests.walks.errors import InstallError, WalkError
from tests.walks.factors import Row

RELEASE: Final = "0.7.0"
DEVELOPMENT: Final = "0.7.0.dev12+g0123456789"
_PROGRAM: Final = """\
#!{python}
import sys
sys.path.insert(0, {tree!r})
from modules.processes.common import version
version.KUBELET_VERSION = version.KUBELET_VERSION.replace(version.VERSION, {version!r})
version.VERSION = {version!r}
from modules.processes.{program}.__main__ import main
sys.exit(main())
"""
_CONFIGURATION: Final = """\
import sys
from pathlib import Path
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.writing import render
print(render(EdgeCoreConfig.below(Path(sys.argv[1]))))
"""
_WITHOUT_ROOT: Final = {"version", "help", "completion"}
_STUB: Final = "# a stub of systemd-resolved\nnameserver 127.0.0.53\noptions edns0 trust-ad\nsearch .\n"
_ports: Final = threading.Lock()
_images: Final = threading.Lock()


@dataclass(frozen=True)
class Done:
    """What a command has printed, and its exit status."""

    command: str
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it has printed for programs, whatever its status; None if that is no JSON."""
        try:
            return json.loads(self.out)
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"`{self.command}`: status {self.status}: {(self.err or self.out).strip()[-600:]}"


@dataclass
class Program:
    """A process of the installation."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def processor_seconds(self) -> float:
        """Processor time that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Ends it, and waits until it is gone."""
        if self.runs:
            self.process.send_signal(how)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def text(self) -> str:
        """All that it has printed."""
        return self.log.read_text(errors="replace")


@dataclass
class Node:
    """A node: its name, its directory, and the process that runs it."""

    name: str
    root: Path
    mqtt_port: int
    program: Program | None = None
    settings: dict[str, Any] = field(default_factory=dict)


class World:
    """The installation of a row. A context manager: inside it runs, and its nodes are Ready.

    Args:
        row: what it consists of.
        tree: the checkout whose programs run, with a virtual environment in .venv.
        account: the ordinary user, if the walks run as root.
        uplink: address of the name server that the machine's files name.
        needs: of the cloud: `bundles`, `api`.
        life: seconds that a user lives with it; `live` waits no longer.
    """

    def __init__(
        self, row: Row, tree: Path, account: Account | None, uplink: str, needs: Collection[str] = (), life: float = 0.0
    ) -> None:
        self.row, self.tree, self.uplink = row, tree, uplink
        self.version = RELEASE if row.version == "release" else DEVELOPMENT
        self.directory = new_directory("wk-", mode=0o755)
        self.commands: set[str] = set()
        """First words of the commands that were run."""
        self.tracebacks: list[str] = []
        """Commands that have ended with one."""
        self.bundles = self.directory / "bundles"
        self.nodes: list[Node] = []
        self.cloud: Program | None = None
        self.cluster: Program | None = None
        self.links: list[Proxy] = []
        self._account = account if row.user == "ordinary" else None
        self._needs, self._life = needs, life
        self._begun = 0
        self._stack = ExitStack()
        with _ports:
            self._port, self._tunnel, self._https, self.api_port, self._cluster_port = (free_port() for _ in range(5))
            self._more = [free_port() for _ in range(12)]

    @property
    def address(self) -> str:
        """Where nodes connect."""
        return f"127.0.0.1:{self._port}"

    @property
    def certificates(self) -> str:
        """Where nodes get certificates."""
        return f"https://127.0.0.1:{self._https}"

    @property
    def names(self) -> set[str]:
        """The names of its nodes."""
        return {node.name for node in self.nodes}

    @property
    def home(self) -> Path:
        """A directory of its user."""
        return self.directory / "home"

    def live(self, seconds: float) -> None:
        """Lets time pass: so many seconds, or as many as a row is lived in."""
        time.sleep(min(seconds, self._life))

    def busy(self, seconds: float = 4.0) -> dict[str, float]:
        """Returns the share of a core that each program uses, measured for so many seconds."""
        programs = self.programs()
        before = {each.name: each.processor_seconds() for each in programs}
        began = time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - began
        return {each.name: (each.processor_seconds() - before[each.name]) / passed for each in programs}

    def cloud_api(self) -> Sequence[str]:
        """Options of kubectl for the cloud's own API, of a walk that needs it."""
        if self.row.certificates == "plain":
            return ("--server", f"http://127.0.0.1:{self.api_port}")
        file = self.home / "admin"
        if not file.exists():
            file.write_text(self.must(self.cloudcore("kubeconfig")).out)
        return ("--kubeconfig", str(file))

    def begin_kubectl(self, *words: str) -> Program:
        """Starts a command of Kubernetes' own client against the cloud's API; it ends with the installation."""
        begun = self._start(f"kubectl-{words[0]}", shutil.which("kubectl") or "kubectl", [*self.cloud_api(), *words])
        self._stack.callback(begun.end)
        return begun

    def kubectl(self, *words: str) -> Done:
        """Runs Kubernetes' own client."""
        done = subprocess.run(
            [*self._prefix, "kubectl", *words], capture_output=True, text=True, timeout=PATIENCE, check=False,
            env={**os.environ, "HOME": str(self.home)},
        )  # fmt: skip
        return Done(" ".join(("kubectl", *words)), done.returncode, done.stdout, done.stderr)

    def free_port(self) -> int:
        """A port of this machine that nobody else of the walks has."""
        return self._more.pop()

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # commands

    def cloudcore(self, *words: str, given: str = "", seconds: float = PATIENCE) -> Done:
        """Runs a command of cloudcore to its end."""
        return self._run("cloudcore", self.directory / "cloud", words, given, seconds)

    def edgecore(self, *words: str, node: int = 0, given: str = "", seconds: float = PATIENCE) -> Done:
        """Runs a command of edgecore for a node to its end."""
        return self._run("edgecore", self.nodes[node].root, words, given, seconds)

    def must(self, done: Done, part: str = "") -> Done:
        """Returns what was done. Raises WalkError if it failed, or has not printed something."""
        if done.status or part not in done.out + done.err:
            raise WalkError(f"{done}{f' (not printed: {part})' if part else ''}")
        return done

    def begin(self, program: str, *words: str, node: int = 0) -> Program:
        """Starts a command that goes on; it ends with the installation."""
        root = self.directory / "cloud" if program == "cloudcore" else self.nodes[node].root
        self._begun += 1
        begun = self._start(f"{program}-{words[0]}-{self._begun}", program, _with_root(words, root))
        self.commands.add(f"{program} {words[0]}")
        self._stack.callback(begun.end)
        return begun

    def until(self, is_so: Any, what: str, seconds: float = PATIENCE) -> None:
        """Returns when something is so. Raises WalkError if it does not become so in time."""
        if not self.comes(is_so, seconds):
            raise WalkError(f"not within {seconds:g} s: {what}")

    def comes(self, is_so: Any, seconds: float) -> bool:
        """Whether something becomes so in time."""
        deadline = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.25)
        return True

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """`cloudcore apply -f -`."""
        self.must(self.cloudcore("apply", "-f", "-", given=yaml.safe_dump_all(objects)))

    def programs(self) -> list[Program]:
        """The programs that run for as long as the installation does."""
        all_of = [self.cluster, self.cloud, *(node.program for node in self.nodes)]
        return [each for each in all_of if each is not None]

    # what happens to it

    def cut(self, seconds: float) -> None:
        """Lets no node reach the cloud, from now on for so many seconds; returns immediately."""
        for link in self.links:
            thread = threading.Thread(target=link.outage, args=(seconds,), daemon=True)
            thread.start()

    def restart_node(self) -> None:
        """Ends the first node by SIGTERM and starts it again."""
        node = self.nodes[0]
        assert node.program is not None
        node.program.end()
        self._start_node(node)

    def restart_cloud(self) -> None:
        """Kills the cloud and starts it again."""
        assert self.cloud is not None
        self.cloud.end(signal.SIGKILL)
        self._start_cloud()

    def change_node(self, node: int, changes: Mapping[str, Any]) -> None:
        """Writes settings into a node's file, by their dotted keys, and starts the node again."""
        chosen = self.nodes[node]
        assert chosen.program is not None
        chosen.program.end()
        self._set(chosen, changes)
        self._start_node(chosen)
        self.wait_for_nodes()

    def wait_for_nodes(self) -> None:
        """Returns when all nodes are Ready. Raises InstallError if they do not become so in time."""
        if not self.comes(lambda: self._ready() >= self.names, PATIENCE):
            raise InstallError(f"not Ready within {PATIENCE:g} s: {self.names - self._ready()}\n{self.tail()}")

    def _ready(self) -> set[str]:
        lines = (line.split() for line in self.cloudcore("get", "nodes", "--no-headers").out.splitlines())
        return {name for name, status, *_ in lines if status == "Ready"}

    def tail(self) -> str:
        """The ends of the logs."""
        return "\n".join(f"--- {each.name}\n{each.text()[-1500:]}" for each in self.programs())

    # how it is made

    def _build(self) -> None:
        files = self._files()
        inside = place(self._account, files, is_root=os.geteuid() == 0)
        self._prefix = self._stack.enter_context(inside)
        python = self.tree / ".venv/bin/python" if self._account is None else self._python_of_others()
        for program in ("cloudcore", "edgecore"):
            self._write_program(program, python)
        if "bundles" in self._needs:
            self.bundles.mkdir()
        self.home.mkdir()
        runtime = self._runtime()
        self._own(self.directory)
        if self.row.objects == "cluster":
            self._start_cluster()
        self._start_cloud()
        for number in range(1 if self.row.nodes == "one-node" else 2):
            self._make_node(number, runtime)
        self.wait_for_nodes()

    def _files(self) -> dict[str, Path]:
        own = self.directory / "files"
        own.mkdir()
        servers = own / "resolv.conf"
        servers.write_text(f"nameserver {self.uplink}\nsearch .\n")
        if os.geteuid() != 0:
            return {}
        if self.row.files == "debian":
            return {"/etc/resolv.conf": servers}
        stub, resolved = own / "stub-resolv.conf", own / "resolve"
        stub.write_text(_STUB)
        resolved.mkdir()
        servers.rename(resolved / "resolv.conf")
        return {"/etc/resolv.conf": stub, "/run/systemd/resolve": resolved}

    def _python_of_others(self) -> Path:
        """Make an environment of the machine's own Python, as that of .venv may be root's, and return its Python."""
        (libraries,) = (self.tree / ".venv/lib").glob("python3.*/site-packages")
        made = self.directory / "python"
        subprocess.run([f"/usr/bin/{libraries.parent.name}", "-m", "venv", "--without-pip", str(made)], check=True)
        (made / libraries.relative_to(self.tree / ".venv") / "walks.pth").write_text(f"{self.tree}\n{libraries}\n")
        return made / "bin/python"

    def _write_program(self, program: str, python: Path) -> None:
        script = self.directory / "bin" / program
        script.parent.mkdir(exist_ok=True)
        script.write_text(_PROGRAM.format(python=python, tree=str(self.tree), version=self.version, program=program))
        script.chmod(0o755)

    def _runtime(self) -> RuntimeUnderTest:
        match self.row.runtime, self.row.user:
            case "containerd", _:
                daemon = self._stack.enter_context(PrivateContainerd(cni=True))
                return self._stack.enter_context(ContainerdUnderTest(daemon))
            case "docker", _:
                return self._stack.enter_context(DockerUnderTest(self._stack.enter_context(PrivateDockerd())))
            case "oci", "root":
                return self._stack.enter_context(OciUnderTest())
        return EmbeddedUnderTest()

    def _start_cluster(self) -> None:
        root, ready = self.directory / "cluster", self.directory / "cluster-ready"
        with _ports:
            own, https = free_port(), free_port()
        words = [
            "run", "--root", str(root), "--listen", f"127.0.0.1:{own}", "--tls", "--https-listen", f"127.0.0.1:{https}",
            "--secure-port", str(self._cluster_port), "--ready-file", str(ready),
            "--log-level", "warning",
        ]  # fmt: skip
        self.cluster = self._start("cluster", "cloudcore", words)
        self._wait_for(ready, self.cluster)
        made = self.cloudcore("kubeconfig", "--root", str(root))
        if made.status:
            raise InstallError(str(made))
        (self.directory / "kubeconfig").write_text(made.out)
        self._own(self.directory / "kubeconfig")

    def _start_cloud(self) -> None:
        ready = self.directory / "ready"
        ready.unlink(missing_ok=True)
        words = [
            "run", "--root", str(self.directory / "cloud"), "--listen", f"127.0.0.1:{self._port}",
            "--tunnel-listen", f"127.0.0.1:{self._tunnel}", "--ready-file", str(ready),
        ]  # fmt: skip
        if self.row.certificates == "tls":
            words += ["--tls", "--https-listen", f"127.0.0.1:{self._https}"]
        if self.row.objects == "cluster":
            words += ["--kubeconfig", str(self.directory / "kubeconfig")]
        elif "api" in self._needs:
            words += ["--secure-port" if self.row.certificates == "tls" else "--insecure-port", str(self.api_port)]
        if "bundles" in self._needs:
            words += ["--bundles", str(self.bundles)]
        self.cloud = self._start("cloudcore", "cloudcore", words)
        self.commands.add("cloudcore run")
        self._wait_for(ready, self.cloud)

    def _make_node(self, number: int, runtime: RuntimeUnderTest) -> None:
        name = f"n{number + 1}"
        root = self.directory / name
        root.mkdir()
        with _ports:
            node = Node(name, root, free_port())
            port = free_port()
        edged = runtime.prepare(root / "edged")
        if self.row.runtime == "oci" and self.row.user == "ordinary":
            _put_images(root / "edged" / "image-archives")
        self.nodes.append(node)
        made = subprocess.run(
            [str(self.tree / ".venv/bin/python"), "-c", _CONFIGURATION, str(root)],
            cwd=self.tree, check=True, capture_output=True, text=True,
        )  # fmt: skip
        (root / "edgecore.yaml").write_text(made.stdout)
        (root / "edgecore.yaml").chmod(0o600)
        link, tunnel = (self._stack.enter_context(Proxy("127.0.0.1", port)) for port in (self._port, self._tunnel))
        self.links += [link, tunnel]
        scheme = "" if self.row.certificates == "tls" else "ws://"
        kubelet = "modules.edged.tailoredKubeletConfig"
        self._set(
            node,
            {
                "modules.edgeHub.websocket.server": f"{scheme}127.0.0.1:{link.port}",
                "modules.edged.hostnameOverride": name,
                "modules.edged.allowUnisolatedRoot": self.row.user == "root",
                f"{kubelet}.containerRuntimeEndpoint": self._endpoint(runtime),
                f"{kubelet}.readOnlyPort": port,
                f"{kubelet}.cgroupRoot": f"/{self.directory.name}" if self.row.user == "root" else "/",
                "modules.edgeStream.enable": True,
                "modules.edgeStream.server": f"{scheme}127.0.0.1:{tunnel.port}",
                "modules.edgeMesh.enable": self.row.mesh == "mesh",
                "modules.eventBus.mqttServerInternal": f"tcp://127.0.0.1:{node.mqtt_port}",
                **{f"modules.edged.{_camel(key)}": str(value) for key, value in edged.items()},
            },
        )
        self._own(root)
        if self.row.certificates == "tls":
            token = self.cloudcore("token").out
            where = ("--cloud", f"127.0.0.1:{link.port}", "--http-server", f"https://127.0.0.1:{self._https}")
            done = self.edgecore("join", *where, "--token", "-", "--name", name, node=number, given=token)
            if done.status:
                raise InstallError(str(done))
            self._set(node, {"modules.edgeStream.server": f"127.0.0.1:{tunnel.port}"})
        self._start_node(node)

    def _endpoint(self, runtime: RuntimeUnderTest) -> str:
        return "embedded://oci" if self.row.runtime == "oci" else runtime.endpoint

    def _set(self, node: Node, changes: Mapping[str, Any]) -> None:
        file = node.root / "edgecore.yaml"
        content = yaml.safe_load(file.read_text())
        for key, value in changes.items():
            *parts, last = key.split(".")
            section = content
            for part in parts:
                section = section.setdefault(part, {})
            section[last] = value
        file.write_text(yaml.safe_dump(content))

    def _start_node(self, node: Node) -> None:
        node.program = self._start(node.name, "edgecore", ["run", "--root", str(node.root)])
        self.commands.add("edgecore run")

    def _start(self, name: str, program: str, words: Sequence[str]) -> Program:
        log = self.directory / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*self._prefix, str(self.directory / "bin" / program), *words],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                cwd=self.directory,
            )  # fmt: skip
        return Program(name, process, log)

    def _wait_for(self, file: Path, program: Program) -> None:
        if not self.comes(lambda: file.exists() or not program.runs, PATIENCE) or not program.runs:
            raise InstallError(f"{program.name} does not start:\n{program.text()[-1500:]}")

    def _run(self, program: str, root: Path, words: Sequence[str], given: str, seconds: float) -> Done:
        command = " ".join((program, *words))
        self.commands.add(f"{program} {words[0]}")
        try:
            done = subprocess.run(
                [*self._prefix, str(self.directory / "bin" / program), *_with_root(words, root)],
                input=given, capture_output=True, text=True, errors="replace", timeout=seconds, check=False,
                cwd=self.directory,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Done(command, -signal.SIGALRM, "", f"has not ended after {seconds:g} s")
        if "Traceback (most recent call last)" in done.stderr:
            self.tracebacks.append(f"`{command}`: {done.stderr.strip()[-600:]}")
        return Done(command, done.returncode, done.stdout, done.stderr)

    def _own(self, path: Path) -> None:
        if self._account is not None:
            subprocess.run(["chown", "-R", f"{self._account.uid}:{self._account.gid}", str(path)], check=True)

    # its end

    def close(self) -> list[str]:
        """Ends and removes everything; returns what `edgecore uninstall` has left, or why it has failed."""
        left = []
        for number, node in enumerate(self.nodes):
            if node.program is None:
                continue
            done = self.edgecore("uninstall", "--yes", "--stop", node=number, seconds=120.0)
            node.program.end()
            if done.status:
                left.append(str(done))
            left += [f"left by `edgecore uninstall`: {each}" for each in mounts_below(node.root)]
        self.nodes = []
        for program in (self.cloud, self.cluster):
            if program is not None:
                program.end()
        self.cloud = self.cluster = None
        if self.directory.exists():
            own = processes_of(self.directory)
            with suppress(Exception):
                self._stack.close()
            for pid in {*own, *processes_of(self.directory)}:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            unmount_under(self.directory)
            remove_cgroups(f"/{self.directory.name}")
            shutil.rmtree(self.directory, ignore_errors=True)
        return left


def _with_root(words: Sequence[str], root: Path) -> list[str]:
    """Return a command line with the directory of a program, before the words that belong to a container's command."""
    if words[0] in _WITHOUT_ROOT or "--root" in words:
        return [*words]
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], "--root", str(root), *words[at:]]


def _put_images(archives: Path) -> None:
    archives.mkdir(parents=True)
    with _images:
        for image in IMAGES:
            docker_archive(busybox_image(image), archives)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
