"""Libraries and programs, read: what they need, export and hold machine code for."""
