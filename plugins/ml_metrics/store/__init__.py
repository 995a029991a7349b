"""Where runs lie: folders and buckets, files that nobody can escape from, signed documents."""
