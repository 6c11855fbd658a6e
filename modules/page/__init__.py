"""The page: a picture of a fleet for a browser, served by `cloudcore page` on this machine only.

Nothing here is loaded by cloudcore itself: the command is a process of its own, which asks the control socket while a
browser looks, and nothing otherwise.
"""
