"""Shards on a Ray cluster, under one limit for all workers."""
