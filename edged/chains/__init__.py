"""Chains: the steps of each pod on this node, with their causes, kept on the disk over restarts of the agent.

Events expire after an hour, and the flight recorder reaches back a minute; a chain lasts as long as its pod.
"""
