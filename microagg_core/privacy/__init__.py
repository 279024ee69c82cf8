"""What a release gives away: the gate with its checks, k recounted, disclosure risk, and the figures that may be told."""
