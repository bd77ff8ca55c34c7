"""What a plugin offers, and how it is found: entries, hook specifications, loading, registry."""
