"""The cluster's durable state: one SQL database, which several cloudcores may share."""
