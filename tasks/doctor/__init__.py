"""Check whether this host can build a profile.

`host_facts_io` and `folder_facts_io` read facts about the host. The pure functions in `*_checks`
turn the facts into check results. `explain_failure_io` finds the cause of a failed stage, and a fix
that suits this host.
"""
