"""What SQL cannot compute of recorded runs. It asks a session and gives Arrow tables; it neither writes nor draws."""
