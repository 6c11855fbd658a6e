"""An ordinary user to run the runtime as, while the tests run as root."""

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple, Self

import pytest

_UID = 23456
_TRIAL = "import os, grpc, msgspec; assert os.geteuid() == {uid}"


class Somebody(NamedTuple):
    """Its number, the command that becomes it, and a Python that it may execute."""

    uid: int
    prefix: Sequence[str]
    interpreter: str

    @classmethod
    def find(cls) -> Self:
        """The user of the tests unless that is root; skips where there is no user namespace or Python."""
        if os.geteuid() != 0:
            return cls(os.geteuid(), [], sys.executable)
        ids = [f"--reuid={_UID}", f"--regid={_UID}", "--clear-groups"]
        # through env, as setpriv itself would find the interpreter with root's rights still
        prefix = ["setpriv", *ids, "env", "PYTHONDONTWRITEBYTECODE=1"]
        if subprocess.run([*prefix, "unshare", "--map-root-user", "true"], check=False, capture_output=True).returncode:
            pytest.skip("this machine does not let ordinary users make user namespaces")
        name = f"python3.{sys.version_info.minor}"
        for interpreter in (sys.executable, f"/usr/bin/{name}", f"/usr/local/bin/{name}"):
            if _works(prefix, interpreter):
                return cls(_UID, prefix, interpreter)
        pytest.skip("no Python that an ordinary user may execute and that has the libraries")


def _works(prefix: Sequence[str], interpreter: str) -> bool:
    return not subprocess.run(
        [*prefix, interpreter, "-c", _TRIAL.format(uid=_UID)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        check=False,
        capture_output=True,
    ).returncode
