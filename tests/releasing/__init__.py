"""Releases in this process: all of one, stage by stage, or publishing alone."""
