"""Groups changed for the better: annealing, neighbours to go to, and the prices that prove how far it can get."""
