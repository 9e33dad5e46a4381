"""HTTP servers: routing, limits, errors as replies. Rewards and sessions are served with it."""
