"""Use the network: download files, retry after failures, and verify digests."""
