"""Cohorts: groups whose members arrive one by one. No files, no HTTP, no clock."""
