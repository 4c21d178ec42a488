"""The errors, data types, hashing, formatting and quoting that all other packages use."""
