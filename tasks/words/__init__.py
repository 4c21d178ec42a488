"""How people say a time, a size, a long list, and a text in lines that fit. Pure."""
