"""Install stage: install the built torch and extensions into the user's environment.

All replaced files are backed up in build/PROFILE/replaced before any file is changed. The backups
are restored after a failed import, and by `doit restore`.
"""
