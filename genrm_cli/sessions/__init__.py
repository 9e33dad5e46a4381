"""Collecting episodes: environments, simulated clients, and the job that plays sessions and writes them as rollouts."""
