"""The durable copy of the cluster: one SQL database, which several cloudcores may share."""
