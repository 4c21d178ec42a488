"""What a wheel that is built here was made from: in it as an SBOM, beside it as a statement. Pure.

docs/provenance.md has what both say and what they do not.
"""
