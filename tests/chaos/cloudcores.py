"""Several cloudcores in processes of their own, that share what they know, and can be killed."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles
from modules.processes.cloudcore.errors import ControlError
from tests.end_to_end.processes import REPOSITORY, Process, wait_until
from tests.support.control_client import ControlClient
from tests.support.ports import free_port

_MODULE: Final = "modules.processes.cloudcore"
_SECONDS: Final = 90.0


class Cloudcore:
    """`cloudcore run`, at one address and in one directory over all its lives.

    Args:
        directory: of its own; short, as a socket is in it.
        options: of `run`, beyond these.
    """

    def __init__(self, directory: Path, options: Sequence[str]) -> None:
        directory.mkdir()
        self.directory = directory
        self.address = f"127.0.0.1:{free_port()}"
        self.tree = REPOSITORY
        """With the code that the next start runs."""
        self._options = options
        self._process: Process | None = None
        self.client = ControlClient(directory / "c.sock")

    @property
    def runs(self) -> bool:
        """Whether it was started, and has not ended."""
        return self._process is not None and self._process.runs

    def start(self) -> None:
        """Starts it (again); returns immediately."""
        self._ready.unlink(missing_ok=True)
        own = ["--listen", self.address, "--socket", str(self.directory / "c.sock"), "--ready-file", str(self._ready)]
        arguments = ["run", *own, *self._options]
        self._process = Process(_MODULE, arguments, self.directory / "log", tree=self.tree, preloads=())

    @property
    def is_ready(self) -> bool:
        """Whether nodes can connect."""
        return self.runs and self._ready.exists()

    def wait(self) -> None:
        """Waits until nodes can connect."""
        wait_until(lambda: self._ready.exists() or not self.runs, f"{self.directory.name} is ready", _SECONDS)
        assert self.runs, self.tail()

    def stop(self) -> int:
        """SIGTERM; returns the exit status."""
        assert self._process is not None
        self._process.signal(signal.SIGTERM)
        return self._process.wait(_SECONDS)

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()

    def nodes(self) -> set[str]:
        """The nodes that are connected to it; none when it does not answer."""
        try:
            return {each.node for each in self.client.nodes()} if self.runs else set()
        except ControlError:
            return set()

    def tail(self) -> str:
        """The end of its log."""
        return f"--- {self.directory.name}\n{self._process.tail() if self._process else ''}"

    @property
    def _ready(self) -> Path:
        return self.directory / "ready"


class Cloudcores:
    """Several that are equals. A context manager; at its end none runs any more.

    Args:
        directory: an empty one.
        count: how many.
        options: of each.
        tree: with the code of all.
    """

    def __init__(self, directory: Path, count: int, options: Sequence[str], tree: Path = REPOSITORY) -> None:
        options = [*options, "--node-limit", "1000", "--log-level", "warning"]
        self.all = [Cloudcore(directory / f"c{number}", options) for number in range(count)]
        for each in self.all:
            each.tree = tree

    def __enter__(self) -> Cloudcores:
        for each in self.all:
            each.start()
        for each in self.all:
            each.wait()
        return self

    def __exit__(self, *_error: object) -> None:
        for each in self.all:
            each.kill()

    def urls(self, node: str, first: int) -> tuple[str, ...]:
        """The websockets of all for a node, beginning with one of them."""
        turned = [*self.all[first:], *self.all[:first]]
        return tuple(f"ws://{each.address}/e632/{node}/events" for each in turned)

    def tail(self) -> str:
        """The ends of all logs."""
        return "\n".join(each.tail() for each in self.all)


class OneCluster:
    """A cluster for several cloudcores: another one's embedded API server over HTTPS. A context manager.

    Args:
        directory: an empty one.
    """

    def __init__(self, directory: Path) -> None:
        tokens = directory / "tokens.csv"
        tokens.write_text('admins-token,cloudcore,1,"system:masters"\n')
        tokens.chmod(0o600)
        self._directory = directory
        self._port = free_port()
        options = ["--tls", "--tls-dir", str(directory / "tls"), "--https-listen", f"127.0.0.1:{free_port()}"]
        options += ["--secure-port", str(self._port), "--token-auth-file", str(tokens), "--log-level", "warning"]
        self.core = Cloudcore(directory / "cluster", options)

    def __enter__(self) -> OneCluster:
        self.core.start()
        self.core.wait()
        return self

    def __exit__(self, *_error: object) -> None:
        self.core.kill()

    def kubeconfig(self) -> Path:
        """Writes the kubeconfig of an administrator."""
        authority = str(AuthorityFiles(self._directory / "tls").authority)
        content = {
            "clusters": [
                {
                    "name": "c",
                    "cluster": {"server": f"https://127.0.0.1:{self._port}", "certificate-authority": authority},
                }
            ],
            "users": [{"name": "u", "user": {"token": "admins-token"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = self._directory / "kubeconfig"
        path.write_text(json.dumps(content))
        return path
