"""Settings and directories of a replay."""

from pathlib import Path
from typing import Any

import msgspec

from beehive.trace import TraceHeader
from edged.settings import EdgedSettings
from edgehub.settings import EdgeHubSettings
from modules.lab.replay.errors import ReplayError
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.reading import read
from modules.processes.edgecore.config.without_effect import KNOWN
from modules.processes.edgecore.config.yaml_text import ConfigDocument
from modules.processes.edgecore.settings import edged_settings, edgehub_settings


class Directories:
    """The mapping of the recorded run's configuration and directories to the replay's.

    Args:
        header: header of the trace.
        root: an empty directory for the replay.

    Raises:
        ReplayError: this edgecore cannot read the header's configuration.
    """

    def __init__(self, header: TraceHeader, root: Path) -> None:
        self.root = root
        self.config = _config(header.configuration)
        recorded = edged_settings(self.config)
        self._pairs = [
            (str(recorded.root), str(root / "edged")),
            (str(recorded.pod_logs), str(root / "logs")),
        ]

    def edged(self, node_ip: str) -> EdgedSettings:
        """Return edged's settings with the directories of the replay."""
        return msgspec.structs.replace(
            edged_settings(self.config),
            root=self.root / "edged",
            pod_logs=self.root / "logs",
            node_ip=node_ip,
        )

    def edgehub(self) -> EdgeHubSettings:
        """Return edgehub's settings."""
        return edgehub_settings(self.config)

    @property
    def database(self) -> Path:
        """Path of the replay's store."""
        return self.root / "edgecore.db"

    def ours(self, text: bytes) -> bytes:
        """Replace the recorded directories in a text by the replay's."""
        for recorded, ours in self._pairs:
            text = text.replace(recorded.encode(), ours.encode())
        return text

    def theirs(self, text: bytes) -> bytes:
        """Replace the replay's directories in a text by the recorded ones."""
        for recorded, ours in self._pairs:
            text = text.replace(ours.encode(), recorded.encode())
        return text


def _config(recorded: dict[str, Any]) -> EdgeCoreConfig:
    """Read the configuration in a header, except the database, which may be redacted and does not matter."""
    document = {key: value for key, value in recorded.items() if key != "database"}
    config, findings = read(EdgeCoreConfig, KNOWN, ConfigDocument(document, {}, ()))
    if findings.problems:
        raise ReplayError("cannot replay the trace", str(findings.problems[0].render("its configuration")))
    return config
