"""What a release is to be: the spec, loading it with line numbers, and its JSON schema."""
