"""The only code that touches the world: processes, files, git, packages, the network and this
host.
"""
