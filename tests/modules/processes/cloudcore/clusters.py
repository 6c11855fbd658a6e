"""A cluster, and the cloudcore that works with it."""

import json
from pathlib import Path
from typing import Any

from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles
from modules.processes.cloudcore.config import TlsConfig
from modules.processes.cloudcore.control_client import Apply, Get
from tests.modules.processes.cloudcore.stubs import Stub


class Cluster:
    """A cluster, and the cloudcore that works with it. The cluster is another cloudcore's embedded one, over HTTPS, as
    kubectl sees it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        (directory / "cluster").mkdir()
        (directory / "core").mkdir()
        tokens = directory / "tokens.csv"
        tokens.write_text('admins-token,cloudcore,1,"system:masters"\n')
        tokens.chmod(0o600)
        self._tls = TlsConfig(directory=directory / "tls", https_port=0)
        self._port = 0
        self.cluster = self.start_cluster()
        self.core = self.start_core()

    def start_cluster(self) -> Stub:
        """Starts the cluster, after the first time on the same port."""
        directory = self._directory / "cluster"
        tokens = self._directory / "tokens.csv"
        stub = Stub(directory, tls=self._tls, secure_port=self._port, token_auth_file=tokens, database=self._database)
        self.cluster = stub.__enter__()
        self._port = stub.core.secure_port
        return stub

    @property
    def _database(self) -> str:
        return str(self._directory / "cluster.db")

    def start_core(self) -> Stub:
        """Starts cloudcore; its database outlives it."""
        directory = self._directory / "core"
        self.core = Stub(directory, kubeconfig=self.kubeconfig(), database=self.core_database).__enter__()
        return self.core

    @property
    def core_database(self) -> str:
        return str(self._directory / "core.db")

    def kubeconfig(self) -> Path:
        """Writes the kubeconfig of an administrator."""
        authority = str(AuthorityFiles(self._directory / "tls").authority)
        server = {"server": f"https://127.0.0.1:{self._port}", "certificate-authority": authority}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": server}],
            "users": [{"name": "u", "user": {"token": "admins-token"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = self._directory / "kubeconfig"
        path.write_text(json.dumps(content))
        return path

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
