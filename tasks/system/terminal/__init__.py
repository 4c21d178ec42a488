"""What a person sees of a run, while it is at work and when it is over."""
