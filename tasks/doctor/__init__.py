"""Check whether this host can build a profile.

`probes` reads the host; one pure function for each subject turns what was read into findings.
`failures` finds the cause of a failed stage and what to do about it on this host.
"""
