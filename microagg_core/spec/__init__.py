"""What a release is to be: the spec, loading it with line numbers, its JSON schema, and one to start from."""
