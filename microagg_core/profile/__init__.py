"""What lies in files that nobody has described yet: their notation, their columns, and what those suggest."""
