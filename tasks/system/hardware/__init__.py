"""What this machine is and has: cards, memory, toolkits, compilers."""
