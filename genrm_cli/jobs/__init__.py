"""Files in, files out: index the input, decide what is due, lease it, spool, write, batch."""
