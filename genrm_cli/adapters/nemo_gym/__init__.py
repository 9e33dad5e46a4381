"""A resources server of NeMo Gym that forwards to `genrm serve`: copy this folder to
resources_servers/genrm_serve.
"""
