"""Share errors, the model, hashing, redaction, formatting and quoting between all packages."""
