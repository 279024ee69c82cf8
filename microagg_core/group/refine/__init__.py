"""Better groups from any partition, and lower bounds that say how far from the best it is."""
