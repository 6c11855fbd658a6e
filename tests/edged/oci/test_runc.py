"""runc in the place of crun."""

import shutil
import signal
from pathlib import Path

import pytest

from edged.oci.engine import OciSettings, purge
from edged.oci.runtime import OciRuntime
from tests.edged.oci.node import OciNode, node_directory, settings_of


class _RuncNode(OciNode):
    def _settings(self) -> OciSettings:
        settings = settings_of(self.state, self.clock)
        runc = shutil.which("runc")
        assert runc is not None
        return settings._replace(programs=settings.programs._replace(runtime=Path(runc)))

    def new_runtime(self) -> OciRuntime:
        return OciRuntime(self.state, self.socket, self.clock, self._settings())

    def purge(self) -> None:
        purge(self.state, self.clock, self._settings())


def test_a_life_with_runc() -> None:
    """Output, exit code, commands, restart of edgecore and end are as with crun."""
    if shutil.which("runc") is None:
        pytest.skip("runc is not installed")
    with node_directory() as directory, _RuncNode(directory) as node:
        assert node.run("echo hello") == "hello\n"
        container = node.shell("exec sleep 1000")
        node.restart()
        assert node.execute(container, "echo", "there").stdout == b"there\n"
        node.stop(container, 0)
        assert node.status(container).exit_code == 128 + signal.SIGKILL
