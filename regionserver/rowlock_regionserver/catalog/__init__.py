"""The catalog: the tables and regions of a data folder, as durable state. host/ serves them."""
