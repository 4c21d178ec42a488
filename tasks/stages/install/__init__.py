"""Install stage: install the built torch and extensions into the user's environment.

The inputs are install.into, wheel.json and the extensions' manifests. The output is install.json,
which describes what is installed there. Before a file is changed, everything is checked, and all
files that will be replaced are backed up in build/PROFILE/replaced. If something does not import
afterwards, the backup is restored. `doit restore` is the rollback. The stage runs again if a wheel
changed, or if the installed packages are missing or changed.
"""
