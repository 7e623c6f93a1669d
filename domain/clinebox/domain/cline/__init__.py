"""What Cline 3.0.57 to 3.0.65 writes, read: its event stream, its log, its transcript and usage."""
