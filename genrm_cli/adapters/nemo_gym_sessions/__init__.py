"""The folder `resources_servers/therapeutic_session` of NeMo Gym."""
