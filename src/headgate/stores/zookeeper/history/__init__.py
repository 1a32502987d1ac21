"""The history in ZooKeeper: nodes in numbered folders, which are moved elsewhere when they are old."""
