"""Changes of this machine's network, after which edgehub checks its link immediately instead of at the deadline.

`messages` parses rtnetlink, `changes` filters it, `netlink` is the socket, `guard` has the actor that reads it and
connects it to the module. Traces do not record the changes: their only effects are a ping or an earlier dial.
"""
