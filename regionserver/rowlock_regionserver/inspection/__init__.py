"""Looking at a stopped server's folder: what is damaged, and what is whole in spite of it. Changes nothing in it."""
