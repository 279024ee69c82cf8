"""Information loss: statistics of a block, how blocks combine, and the figures that are published of a release."""
