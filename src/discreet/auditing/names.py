"""Names that an audit and its file share; they load nothing that audits."""

BEYOND = "advantage beyond the answer"
INDEPENDENT_RELEASES = (
    "readings of different releases are independent, given the private class (declared)"
)
