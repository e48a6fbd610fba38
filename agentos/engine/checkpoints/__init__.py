"""Where the state of an item is kept between nodes."""
