"""What goes over a network: fetched whole, insisted on, and verified."""
