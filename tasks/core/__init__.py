"""Share basic values between all packages: errors, model, hashing, redaction, formatting,
quoting.
"""
