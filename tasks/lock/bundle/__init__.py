"""What a profile is built of, put into a folder or an archive, and taken from there.

`collecting` brings it together, `repositories` are of git, `packing` makes the folder or archive
whole, `opening` reads one and verifies what is used.
"""
