"""What `genrm score` tells a person at its end."""
