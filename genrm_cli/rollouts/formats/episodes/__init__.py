"""Formats whose rollouts are episodes: sessions, and trajectories of agents."""
