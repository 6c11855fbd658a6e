"""Replays a recorded run against today's code in virtual time and compares the two.

Start at `run.replay`. If one module is replayed, its messages, replies, container runtime, link and store come from the
trace. If the whole node is replayed, only the cloud's frames and the runtime's answers do.
"""
