"""Files on this machine, and the streams, pipes and devices among them."""
