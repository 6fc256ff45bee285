"""What people look at: tables, figures, progress. It never computes a score."""
