"""Children with everyone that they start, and those that a killed run left."""
