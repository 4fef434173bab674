"""What `aiflame demo` profiles, and the sentence that tells what the profile shows."""
