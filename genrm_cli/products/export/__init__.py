"""From rewards to training: data sets for trainers, made from scored rollouts."""
