"""Why something failed, told by its log. Pure: lines in, a diagnosis out.

    lines ─► cleaned, each in its Ninja edge ─► hits of failures.yaml ─► the earliest cause
                                            └─► the first real error

It knows what failures.yaml knows. What it does not know it does not guess: the first error and the
candidates are then all it says.
"""
