"""A day of life (`make life`): a cloud and a node under churn need no more at its end than after its first hour."""
