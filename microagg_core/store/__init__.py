"""Where things are kept: URLs, objects, their names, release manifests, publishing and rechecking."""
