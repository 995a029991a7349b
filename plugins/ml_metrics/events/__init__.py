"""TensorBoard event files, read completely and in columns."""
