"""The environment `therapeutic_session`: a counsellor, which is the policy, and a simulated client.
Pure.
"""
