"""Reads collections with Apache Beam; all but the command needs the extra `beam`."""
