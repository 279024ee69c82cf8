"""The operator's page: a release in charts, sentences and tables, for whoever signs it and for nobody else."""
