"""Read what formats share: messages, response items, the fields of a record; and what a format is."""
