"""Components besides the pairwise reward, one module each. Missing values are None and are ignored."""
