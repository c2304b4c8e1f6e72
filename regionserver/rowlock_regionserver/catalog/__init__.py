"""The catalog: which tables and regions exist, and the region server that serves them all from one folder."""
