"""The history in ZooKeeper: nodes in numbered folders, which leave it when they are old."""
