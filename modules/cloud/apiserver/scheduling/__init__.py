"""The scheduler's nodes with their pods, filters and scores. All are pure."""
