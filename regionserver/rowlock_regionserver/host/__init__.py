"""The regions of one server: opening, background work, snapshots, stopping."""
