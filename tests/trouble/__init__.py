"""What goes wrong around a release: damage, rivals, every interleaving of several programs."""
