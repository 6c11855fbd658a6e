"""Replay: today's code fed with what a recorded run was fed with, in virtual time, and held to what that run did.

Start at `run.replay`. One module alone gets its messages, the answers to its questions, its container runtime, its link
or its store from the trace; of the whole node only the frames from the cloud and the runtime's answers come from there.
"""
