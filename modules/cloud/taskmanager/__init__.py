"""The module taskmanager: ImagePrePullJobs, NodeUpgradeJobs and ConfigUpdateJobs of KubeEdge's
`operations.kubeedge.io/v1alpha2`.

`module` is the actor. `definitions` has the kinds, `statuses` a job's status as KubeEdge writes it; `progress` decides,
without effects, which nodes a job is for, who is next, and how it ends; `deadlines` has the time-outs, and `waves` the
groups in which nodes have their turn.
"""
