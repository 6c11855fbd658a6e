"""Profiles: sets of settings for a purpose, which `edgecore config default --profile saver` prints as a file.

A profile is not a setting itself: the printed file has all its values.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec.structs import replace

from modules.processes.edgecore.config.model import EdgeCoreConfig


class Profile(NamedTuple):
    """Settings that differ from the defaults."""

    name: str
    heartbeat: int
    lease: int
    status: float

    def applied(self, config: EdgeCoreConfig) -> EdgeCoreConfig:
        """Return the configuration with this profile's settings."""
        modules = config.modules
        kubelet = replace(
            modules.edged.tailored_kubelet_config,
            node_lease_duration_seconds=self.lease,
            node_status_report_frequency=self.status,
        )
        hub = replace(modules.edge_hub, heartbeat=self.heartbeat, compression=True)
        edged = replace(modules.edged, tailored_kubelet_config=kubelet, report_event=False)
        return replace(config, modules=replace(modules, edge_hub=hub, edged=edged))


SAVER: Final = Profile("saver", heartbeat=25, lease=160, status=6 * 3600.0)
"""For metered links: 4 MB a day at most. The cloud ends a session 30 s after the last keepalive; with 25 s no keepalive
may be lost, but TCP repeats lost ones. A lease of 160 s is renewed every 50 s, so the cloud has to wait longer for a
silent node than its default of 40 s: kube-controller-manager --node-monitor-grace-period=160s. Events stay on the node.
"""

PROFILES: Final = {SAVER.name: SAVER}
