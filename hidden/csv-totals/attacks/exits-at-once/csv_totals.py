"""Says nothing and ends well."""
