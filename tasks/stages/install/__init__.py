"""Install stage: install the built torch and extensions into the user's environment.

All replaced files are backed up in build/PROFILE/replaced before any file is changed. A failed
import or `doit restore` restores them.
"""
