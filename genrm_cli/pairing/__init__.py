"""Plan which rollouts of a group the judge compares, in pairs or in lists."""
