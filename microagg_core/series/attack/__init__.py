"""What an outsider computes from several releases of the same people, knowing nothing but their files."""
