"""The cluster that tests of many kinds share."""

import pytest

from beehive.clock import RealClock
from modules.cloud.apiserver.admission.chain import PLUGINS
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.system_objects import make_system_objects


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    """Return a cluster with its own objects and all admission, one for a file."""
    made = Cluster(RealClock(), plugins=PLUGINS)
    make_system_objects(made)
    return made
