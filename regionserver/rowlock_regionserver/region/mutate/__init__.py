"""Row mutations: check, compare, and commit."""
