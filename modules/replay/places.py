"""The settings and directories of a replay, and how they differ from those of the recorded run."""

from pathlib import Path
from typing import Any

import msgspec

from beehive.trace import Header
from edged.settings import EdgedSettings
from edgehub.settings import EdgeHubSettings
from modules.edgecore.config import EdgeCoreConfig
from modules.edgecore.config.reading import read
from modules.edgecore.config.without_effect import KNOWN
from modules.edgecore.config.yaml_text import Document
from modules.edgecore.settings import edged_settings, edgehub_settings
from modules.replay.errors import ReplayError


class Places:
    """See the module's docstring.

    Args:
        header: of the trace.
        root: an empty directory for the replay.

    Raises:
        ReplayError: the header's configuration is none that is understood.
    """

    def __init__(self, header: Header, root: Path) -> None:
        self.root = root
        self.config = _config(header.configuration)
        recorded = edged_settings(self.config)
        self._pairs = [
            (str(recorded.root), str(root / "edged")),
            (str(recorded.pod_logs), str(root / "logs")),
        ]

    def edged(self, node_ip: str) -> EdgedSettings:
        """Settings of edged, its directories being the replay's."""
        return msgspec.structs.replace(
            edged_settings(self.config),
            root=self.root / "edged",
            pod_logs=self.root / "logs",
            node_ip=node_ip,
        )

    def edgehub(self) -> EdgeHubSettings:
        """Settings of edgehub."""
        return edgehub_settings(self.config)

    @property
    def database(self) -> Path:
        """Where the replay's store is."""
        return self.root / "edgecore.db"

    def ours(self, text: bytes) -> bytes:
        """A recorded text with this replay's directories."""
        for recorded, ours in self._pairs:
            text = text.replace(recorded.encode(), ours.encode())
        return text

    def theirs(self, text: bytes) -> bytes:
        """A text of this replay with the recorded directories."""
        for recorded, ours in self._pairs:
            text = text.replace(ours.encode(), recorded.encode())
        return text


def _config(recorded: dict[str, Any]) -> EdgeCoreConfig:
    """The configuration in a header. Where the database was does not matter, and may not be shown."""
    document = {key: value for key, value in recorded.items() if key != "database"}
    config, findings = read(EdgeCoreConfig, KNOWN, Document(document, {}, ()))
    if findings.problems:
        raise ReplayError("cannot replay the trace", str(findings.problems[0].render("its configuration")))
    return config
