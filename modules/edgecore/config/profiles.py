"""Sets of settings for a purpose: `edgecore config default --profile saver` prints them as a file.

A profile is no setting of its own: what the file says is what holds, so that nobody has to know what stands behind a
name.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec.structs import replace

from modules.edgecore.config.model import EdgeCoreConfig


class Profile(NamedTuple):
    """Settings that differ from the defaults."""

    name: str
    heartbeat: int
    lease: int
    status: float

    def applied(self, config: EdgeCoreConfig) -> EdgeCoreConfig:
        """The configuration with this profile's settings."""
        modules = config.modules
        kubelet = replace(
            modules.edged.tailored_kubelet_config,
            node_lease_duration_seconds=self.lease,
            node_status_report_frequency=self.status,
        )
        hub = replace(modules.edge_hub, heartbeat=self.heartbeat, compression=True)
        edged = replace(modules.edged, tailored_kubelet_config=kubelet)
        return replace(config, modules=replace(modules, edge_hub=hub, edged=edged))


SAVER: Final = Profile("saver", heartbeat=25, lease=160, status=6 * 3600.0)
"""For metered links: 4 MB a day at most. The cloud ends a session 30 s after the last keepalive, and 25 leaves no room
for a lost one: TCP repeats it. A lease of 160 s is renewed every 50 s, so the cloud has to wait for longer than its
default of 40 s until it gives a node up: kube-controller-manager --node-monitor-grace-period=160s.
"""

PROFILES: Final = {SAVER.name: SAVER}
