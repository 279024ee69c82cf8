"""Inspect releases: the gate and its checks, k recounted, disclosure risk, which figures may be published."""
