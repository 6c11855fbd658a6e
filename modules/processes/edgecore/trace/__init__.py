"""Tools for traces: the explanation of one object's history, diagrams for other programs, and an HTML page.

All of them convert the records of `beehive.trace` to `Event`s first, so that a delivery on the bus, a call of the
container runtime and a captured frame are shown in one form. A running agent loads none of this package.
"""
