"""Install stage: install the built torch and extensions into the user's environment.

All replaced files are backed up in build/PROFILE/replaced before any file is changed. They are
restored if an import fails afterwards, or by `doit restore`.
"""
