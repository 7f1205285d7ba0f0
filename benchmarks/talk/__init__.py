"""What is understood of what people say."""
