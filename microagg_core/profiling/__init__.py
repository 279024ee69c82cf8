"""What lies in files that nobody has described yet: how they are written, what their columns hold, what that suggests."""
