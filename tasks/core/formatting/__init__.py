"""How people say a time, a size, a long list, what moved, and a text in lines that fit. Pure."""
