"""The time and endpoint of the next call: limits, retries, unhealthy endpoints, budgets."""
