"""Where things come from besides their own address: what a lock holds them to, a bundle, a
mirror.
"""
