"""A wheel against what is recorded of it: its own RECORD and SBOM, the statement beside it, the
manifests of a profile, and what it declares to need.
"""
