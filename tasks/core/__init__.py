"""What every package shares: errors, the model, hashing, redaction, text formatting and quoting."""
