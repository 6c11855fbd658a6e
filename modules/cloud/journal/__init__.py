"""The journals: when each node was connected and why a connection ended, who changed which object, and which values
devices have reported.
"""
