"""Wheel stage: build, fetch or find torch, check it and install it.

The input is a requirement, a build directory or an interpreter. The outputs are wheel.json (for
validate) and surface.json (what extensions compile and link against; surfaces/ has the details, to
explain a change). The wheel is checked before it is installed, and kept in the wheelhouse.

The libraries of a wheel that was built here are inspected first (wheel-libraries.json: what another
machine must provide). The wheel is imported after its installation. Members that the last good
wheel has with the same bytes are not compressed, read or installed again.

The stage runs again if its inputs changed. A rebuild with the same content keeps the old wheel, its
name and its manifests.
"""
