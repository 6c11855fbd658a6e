"""What the kernel says of this machine's network, so that a link is looked at when the network has changed, and not
only when its deadline has passed.

`messages` reads what the kernel sends, `changes` decides what of it matters, `netlink` is the socket, `lookout` the
actor that waits at it, `guard` what the module holds of all this. It is not recorded: what comes of it is a question to
the cloud, or an earlier try to reach it.
"""
