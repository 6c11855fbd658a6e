"""taskmanager: answers the jobs of KubeEdge's cloud (ImagePrePullJob, ConfigUpdateJob, NodeUpgradeJob), which this node
does not carry out.

`module` receives them; `refusals` has the answers.
"""
