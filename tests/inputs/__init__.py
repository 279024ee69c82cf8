"""What tests release: records, companies, and hypothesis' strategies for matrices."""
