"""The fence of the controllers: of the cloudcores that share a database, one runs them.

Its name is in a Lease, which it writes when it takes over. Each of its writes is refused in the transaction that would
make it once another one has taken over: a cloudcore that was stopped for a minute and goes on makes no pod twice.
"""

from typing import Final

from modules.apimachinery.api_errors import ConflictError
from modules.apimachinery.kinds import ObjectKey
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.namespaces import SYSTEM_NAMESPACE

NAME: Final = "cloudcore-controllers"
_KEY: Final = ObjectKey("Lease", SYSTEM_NAMESPACE, NAME)


def check_fence(cluster: Cluster, fence: str) -> None:
    """Check that a cloudcore still runs the controllers.

    Args:
        cluster: the objects.
        fence: the cloudcore and the number of changes of hands after which it was the one: `cloud-a/3`.

    Raises:
        ConflictError: another one does.
    """
    spec = (cluster.storage.find(_KEY) or {}).get("spec") or {}
    present = f"{spec.get('holderIdentity')}/{spec.get('leaseTransitions')}"
    if present != fence:
        raise ConflictError("leases", NAME, f"the controllers are run by {present}, and not by {fence} any more")
