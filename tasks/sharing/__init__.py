"""Pure: what machines share, a compiler cache and the work itself."""
