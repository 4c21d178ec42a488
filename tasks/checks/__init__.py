"""Could this profile be built here? One pure function for each subject: what was seen goes in,
symptoms come out. Nothing is looked at here, and no check hides another.
"""
