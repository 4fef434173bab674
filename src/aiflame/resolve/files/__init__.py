"""The files beside a profile that may be read: the door to them, ELF files, and the search for the code that ran."""
