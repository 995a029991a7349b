"""What runs inside the workload. The standard library only: safe in any training image."""
