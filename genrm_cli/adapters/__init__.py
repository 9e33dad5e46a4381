"""Adapters that let trainers ask a running `genrm serve`, one module per trainer.

A module imports its trainer; nothing else of genrm imports the module.
"""
