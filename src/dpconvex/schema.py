"""What is public about a table, under the name that users see: see `dpconvex.data.schema`."""

from dpconvex.data.schema import Category, Classes, Date, Ignore, Number, Range, Schema

__all__ = ["Category", "Classes", "Date", "Ignore", "Number", "Range", "Schema"]
