"""Components beside the pairwise reward, one module each; a rollout without a value is None and takes no part."""
