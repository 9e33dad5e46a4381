"""Turn the verdicts of a group into numbers: estimators, length and style terms, rewards and
advantages.
"""
