"""taskmanager: carries out the jobs of the cloud (KubeEdge's `operations.kubeedge.io/v1alpha2`) that the owner of the
node allows, one at a time, and refuses the others.

`module` receives them and goes through their actions; `record` is what the store has of the job under way. `checks`,
`pulls`, `upgrades` and `settings_updates` are actions, the last two by `programs` that outlive edgecore. `owner` is
what the owner of the node asks; `refusals` has the answers of KubeEdge's older API.
"""
