"""Reading of scored lines and the files beside them."""
