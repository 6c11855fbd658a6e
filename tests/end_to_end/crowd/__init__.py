"""What single pods may ask for, one case each, all of them on one node at the same time.

A case is a test function with the manifests that it `wants`. All that will be needed is applied together when the first
case begins, so that a case waits for what happens anyway, and the whole crowd takes as long as its slowest pod. When
the last one is over all pods are deleted, and nothing of them may be left: see `left_behind`. The node's runtime is
edgecore's own OCI runtime; `make slow` has a second node on containerd.

    crowd     the node with its pods, what a case asks of it, what must not be left
    conftest  fixtures
    test_*    the cases, by subject
"""
