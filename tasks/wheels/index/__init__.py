"""A static package index as a folder: `simple/` holds the pages, `files/` the wheels.

Whoever reads it meanwhile sees the old or the new: a wheel is there before a page names it, and
stays for a day after the last page that did; each page is put there by one rename.
"""
