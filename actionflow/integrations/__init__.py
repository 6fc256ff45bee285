"""Recording inside other people's training libraries: one module for each."""
