"""Kubeconfigs of administrators, for tests."""

import json
from pathlib import Path

TOKEN = "admins-token"  # noqa: S105 - of tests only


def write_token_file(path: Path) -> Path:
    """Write the file of static tokens that makes `TOKEN` an administrator's."""
    path.write_text(f'{TOKEN},cloudcore,1,"system:masters"\n')
    path.chmod(0o600)
    return path


def write_kubeconfig(path: Path, port: int, authority: Path) -> Path:
    """Write the kubeconfig of an administrator.

    Args:
        path: of the file.
        port: of the API server, on this machine.
        authority: the certificate of its authority.
    """
    server = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(authority)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(content))
    return path
