"""README and docs held against claims and evidence."""
