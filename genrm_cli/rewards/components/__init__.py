"""Components besides the pairwise reward, one module each; a missing value is None and ignored."""
