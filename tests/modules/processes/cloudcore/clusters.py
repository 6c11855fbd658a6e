"""A cluster, and the cloudcore that works with it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.processes.cloudcore.config import TlsConfig
from tests.modules.processes.cloudcore.stubs import Stub
from tests.support.control_client import Apply, Get
from tests.support.kubeconfigs import write_kubeconfig, write_token_file
from tests.support.ports import free_port

_NEVER_RENEWED: Final = LeaseSettings(period=3600.0, labels={"app.kubernetes.io/name": "cluster"})
"""The cluster divides no duties, such as conditions of devices, with the cloudcore before it, as a real one."""


class Cluster:
    """A cluster, and the cloudcore that works with it. The cluster is another cloudcore's embedded one, over HTTPS, as
    kubectl sees it.

    Args:
        directory: of both.
        options: returns further settings of the cloudcore, when the cluster is there.
        controllers: of the cluster.
    """

    def __init__(
        self, directory: Path, options: Callable[[], dict[str, Any]] = dict, *, controllers: str = "embedded"
    ) -> None:
        self._options = options
        self._controllers = controllers
        self._directory = directory
        (directory / "cluster").mkdir()
        (directory / "core").mkdir()
        write_token_file(directory / "tokens.csv")
        self._tls = TlsConfig(directory=directory / "tls", https_port=0)
        self._port = free_port()
        self.cluster = self.start_cluster()
        self.core = self.start_core()

    def start_cluster(self) -> Stub:
        """Starts the cluster, always on the same port."""
        directory = self._directory / "cluster"
        tokens = self._directory / "tokens.csv"
        options = {"tls": self._tls, "secure_port": self._port, "token_auth_file": tokens, "lease": _NEVER_RENEWED}
        stub = Stub(directory, database=self._database, controllers=self._controllers, **options)
        self.cluster = stub.__enter__()
        return stub

    @property
    def _database(self) -> str:
        return str(self._directory / "cluster.db")

    def start_core(self) -> Stub:
        """Starts cloudcore; its database outlives it."""
        directory = self._directory / "core"
        self.core = Stub(directory, kubeconfig=self.kubeconfig(), database=self.core_database, **self._options())
        self.core.__enter__()
        return self.core

    @property
    def core_database(self) -> str:
        return str(self._directory / "core.db")

    def kubeconfig(self) -> Path:
        """Writes the kubeconfig of an administrator."""
        authority = AuthorityFiles(self._directory / "tls").authority
        return write_kubeconfig(self._directory / "kubeconfig", self._port, authority)

    def close(self) -> None:
        """Stops both."""
        self.core.__exit__()
        self.cluster.__exit__()

    def apply(self, *documents: Any) -> None:
        """As kubectl does on the cluster."""
        self.cluster.client.run(Apply(list(documents)))

    def objects(self, word: str) -> list[Any]:
        """The cluster's objects of a kind."""
        return [item.object for item in self.cluster.client.run(Get(word))]
