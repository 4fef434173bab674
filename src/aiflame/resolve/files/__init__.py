"""Files outside of the profile that may be read: the door to them, ELF files, and the search for the code that ran."""
