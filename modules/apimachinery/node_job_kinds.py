"""The kinds of jobs of nodes, for the configuration, too, which loads nothing of the bus (see `node_jobs`)."""

from enum import StrEnum


class JobKind(StrEnum):
    """Kinds of jobs, as in manifests."""

    NODE_UPGRADE = "NodeUpgradeJob"
    IMAGE_PRE_PULL = "ImagePrePullJob"
    CONFIG_UPDATE = "ConfigUpdateJob"
