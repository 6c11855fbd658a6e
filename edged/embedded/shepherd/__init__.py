"""The processes between edgecore and a container: one nursery, and one shepherd for each running container.

A container must outlive edgecore, its log must go on being written and its exit code must not be lost; so its
parent cannot be edgecore. The parent is a *shepherd*: a small process that holds the log pipes, reaps
everything the container leaves behind and writes down how it ended. Shepherds are forked by the *nursery*, a
process with nothing but this package loaded: forking it takes a millisecond, where a Python interpreter of
its own for each container takes thirty.

This package runs without site-packages (`python -I -S`), so it imports the standard library only, and little
of that; besides it only `beehive.files`, which does the same.
"""
