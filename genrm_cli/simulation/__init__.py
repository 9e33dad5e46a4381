"""Simulate a judge and groups whose true qualities are known, to compare plans and estimators
before a run.
"""
