"""Run git for a build: checkouts, their state, patches and remote hosts."""
