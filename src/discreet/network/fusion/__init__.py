"""The fusion centre: messages in, stored symbols and decisions out."""
