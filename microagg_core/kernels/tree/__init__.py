"""The groups that scans make, through a k-d tree over the records that remain: the tree, its searches, algorithms."""
