"""The fusion centre: messages in, stored readings and decisions out."""
