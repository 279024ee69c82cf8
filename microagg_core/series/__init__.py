"""A series of nights about the same units: its key, its ledger, and what becomes of the units from night to night."""
