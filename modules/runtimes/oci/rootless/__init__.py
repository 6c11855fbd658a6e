"""The OCI runtime for an ordinary user: no root, no daemon.

edgecore enters a user namespace and a mount namespace before it has a second thread (`entering`). In them the user is
root, and others are the user's sub-ids (`identifiers`); on the machine nothing changes. Each pod has a user namespace
in it whose root is the first sub-id, who owns nothing on the machine. edgecore stays in the machine's network. Pods are
on a bridge in a network namespace of the node, which slirp4netns connects (`node_network`, `pod_network`).
"""
