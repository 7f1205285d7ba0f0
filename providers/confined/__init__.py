"""Child processes in which files of strangers are read: started, asked, confined, and ended."""
