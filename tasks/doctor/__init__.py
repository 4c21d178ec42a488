"""Check whether this host can build a profile.

`host_facts_io` and `folder_facts_io` read the host; the pure functions of `*_checks` turn these
facts into check results. `explain_failure_io` finds the cause of a failed stage and a fix for this
host.
"""
