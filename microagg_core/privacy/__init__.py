"""What a release gives away: k-anonymity recounted from the output, and disclosure risk."""
