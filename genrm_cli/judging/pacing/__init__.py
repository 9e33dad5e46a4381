"""When the next call is made, and where: limits, retries, dead endpoints, budgets."""
