"""Wheel: the torch that everything after is about.

Given a requirement, a build folder or an interpreter; leaves wheel.json (for validate) and
surface.json (what extensions compile and link against; surfaces/ has what that consists of, for the
words when it moves). The wheel is checked before it is installed and kept in the wheelhouse. One
that was built here has its libraries looked at first (job `libraries`: what another machine has to
have), and is imported once it is installed; of what the last good wheel holds in the same bytes
nothing is compressed, read or installed again. Reruns when what it is made of changed; a rebuild to
the same content keeps the old wheel, name and manifests.
"""
