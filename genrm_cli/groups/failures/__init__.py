"""Failures: which texts cause them, how often innocent ones have them, and what to ask."""
