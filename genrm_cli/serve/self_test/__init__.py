"""Send a made-up cohort to a server as a trainer would, and check the replies."""
