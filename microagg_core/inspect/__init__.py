"""What a release gives away: the gate and its checks, k recounted, disclosure risk, which figures may be published."""
