"""The version, in a module of its own so that every room can read it."""

VERSION = "0.1.0"
