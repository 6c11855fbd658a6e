"""taskmanager: carries out the jobs of the cloud (ImagePrePullJob; KubeEdge's `operations.kubeedge.io/v1alpha2`) that
the owner of the node allows, one at a time, and refuses the others.

`module` receives them and goes through their actions; `record` is what the store has of the job under way, `checks`
and `pulls` are actions, `refusals` the answers of KubeEdge's older API.
"""
