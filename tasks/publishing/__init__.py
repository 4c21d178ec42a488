"""Pure: what a static package index says of the wheels on it, and how long it keeps them."""
