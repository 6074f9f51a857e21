"""The Node-RED node: an npm package that is a client of a site."""
