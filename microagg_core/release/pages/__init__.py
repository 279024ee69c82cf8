"""What stands beside a release for those who use it: pages for people, and the same for programs."""
