"""What a process owes its machine and its user: signals, standard streams, temporary files, limits of the system."""
