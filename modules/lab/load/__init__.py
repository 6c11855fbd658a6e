"""Load for a running cloud: stand-ins of nodes that report over real links, with faults, and leave no object behind.

`stand_in` is a node, `documents` what it sends, `joining` gets certificates, `objects` makes and removes what the
stand-ins need in the cloud, `run` keeps the load up, and `commands` is `cloudcore load`.
"""
