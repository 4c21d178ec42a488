"""Find the cause of a failure in its log.

    lines ─► cleaned, grouped by Ninja edge ─► matches of failures.yaml ─► the earliest cause
                                           └─► the first real error

If the cause is uncertain, the diagnosis has the first error and the possible causes.
"""
