"""Pages in headless Chromium, and the pictures of them in the docs."""
