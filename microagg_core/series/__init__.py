"""A series of nights about the same units: its ledger, traces, and what becomes of units from night to night."""
