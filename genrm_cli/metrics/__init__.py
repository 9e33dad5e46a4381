"""What a run counts: typed, versioned, mergeable."""
