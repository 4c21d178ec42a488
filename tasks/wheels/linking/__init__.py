"""Who supplies what a library needs: by the rules of the system's loader, and out of NVIDIA's
packages. Pure.
"""
