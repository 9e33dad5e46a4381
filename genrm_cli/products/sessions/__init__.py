"""Episodes of simulated conversations: environments, rules, collection, review by experts, and
hosting.
"""
